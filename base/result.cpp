#include "base/result.h"

#include "base/xml.h"

namespace tandem {

std::string Error::text() const {
  return kept_short(place.source.empty() ? message : place.source + ": " + message);
}

}  // namespace tandem
