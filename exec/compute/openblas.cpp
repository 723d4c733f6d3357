#include "exec/compute/openblas.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace tandem {

Result<OpenBlas> open_openblas() {
  // The library is never closed, as its threads may outlive every use.
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return Error{fmt::format("matrix products unavailable: {}; on Debian it is in "
                             "libopenblas0-pthread",
                             dlerror()),
                 Error::Missing};
  OpenBlas blas;
  blas.sgemm = reinterpret_cast<decltype(blas.sgemm)>(dlsym(library, "cblas_sgemm"));
  const auto set_threads =
      reinterpret_cast<void (*)(int)>(dlsym(library, "openblas_set_num_threads"));
  if (blas.sgemm == nullptr || set_threads == nullptr)
    return Error{
        "matrix products unavailable: libopenblas.so.0 has no cblas_sgemm or no "
        "openblas_set_num_threads",
        Error::Missing};
  set_threads(1);
  return blas;
}

}  // namespace tandem
