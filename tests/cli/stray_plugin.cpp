// A library with a plugin's name where none should be looked for: it leaves a file when it is
// loaded.
#include <cstdlib>
#include <fstream>

namespace {

struct Loaded {
  Loaded() {
    if (const char* path = std::getenv("TANDEM_STRAY")) std::ofstream(path) << "loaded\n";
  }
} const loaded;

}  // namespace
