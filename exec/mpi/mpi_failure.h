// Turns the failure of an MPI call into an Error; for the plugin's files.
#pragma once

#include <mpi.h>

#include <array>
#include <string>

#include "base/result.h"

namespace tandem {

inline Error mpi_failure(const char* call, int code) {
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  return Error{std::string(call) + ": " + std::string(text.data(), length), Error::Failed};
}

#define RETURN_IF_MPI_FAILS(call, ...)                             \
  do {                                                             \
    if (const int code = call(__VA_ARGS__); code != MPI_SUCCESS) { \
      return mpi_failure(#call, code);                             \
    }                                                              \
  } while (false)

}  // namespace tandem
