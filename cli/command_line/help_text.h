// Formats what --help prints, as wide as the terminal.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}

namespace tandem {

std::shared_ptr<CLI::FormatterBase> help_text();

}  // namespace tandem
