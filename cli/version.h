// Which Tandem this is.
#pragma once

namespace tandem {

// "0.1.0 (commit 1a2b3c4d5e)"; without a commit where it was built from an archive.
const char* version();

}  // namespace tandem
