// Checks that no command overwrites one of its inputs, or writes two outputs to one file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// A file and the option or key that names it, such as "--trace".
struct NamedFile {
  std::string name;
  std::string path;
};

// Checks, before the long work, that each output can be written. An output must not be an input,
// another output, or the file or pipe that standard output or error goes to, whatever paths and
// links lead there. A name such as b.png is refused: pictures are written as SVG. Empty paths and
// devices are not checked: /dev/null takes everything.
Status check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

}  // namespace tandem
