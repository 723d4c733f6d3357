// Exit statuses of Tandem's processes: from Errors, and back.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"

namespace tandem {

constexpr int exit_status(Error::Kind kind) {
  switch (kind) {
    case Error::Failed:
      return 1;
    case Error::BadInput:
      return 2;
    case Error::Missing:
      return 3;
  }
  return 1;
}

// Returns the status of the other process that the Error comes from, if there is one.
inline int exit_status(const Error& error) {
  return error.code != 0 ? error.code : exit_status(error.kind);
}

// Returns the Error of another process that ended with this status. REQUIRES: status is not 0.
inline Error ended_with(int status, std::string message) {
  Error error{std::move(message), Error::Failed};
  for (const Error::Kind kind : {Error::BadInput, Error::Missing}) {
    if (status == exit_status(kind)) error.kind = kind;
  }
  error.code = status;
  return error;
}

}  // namespace tandem
