// A YAML file's values as Megatron-LM's command line or log writes them.
#pragma once

#include <string>

#include "interop/document/document.h"

namespace tandem {

// "None", "True", "False", "[1, 2]", or the text itself.
std::string written_value(const DocumentNode& node);

}  // namespace tandem
