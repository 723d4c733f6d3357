// Outputs: no command writes over what it reads, or writes two things to one file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace tandem {

// A file and what names it, an option or a key: "--trace".
struct NamedFile {
  std::string name;
  std::string path;
};

// Before the work that fills them: each output can be written, and is none of the inputs, no other
// output and not where standard output or error goes, whatever paths and links lead there. Empty
// paths are not looked at, nor are devices: /dev/null takes all.
Status check_outputs(const std::vector<NamedFile>& outputs, const std::vector<NamedFile>& inputs);

}  // namespace tandem
