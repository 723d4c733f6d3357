// A message is a row of fields. Each begins with a key: the field's number times 8, plus its type.
// Keys, sizes and most numbers are varints: 7 bits a byte, the lowest first, and the top bit set in
// all bytes but the last. So 300 = 2 * 128 + 44 is AC 02.
#include "interop/chakra/wire.h"

namespace tandem {

std::optional<std::uint64_t> WireReader::varint() {
  constexpr int kMostBits = 64;
  std::uint64_t value = 0;
  for (int shift = 0; shift < kMostBits; shift += 7) {
    if (at_ == bytes_.size()) break;
    const auto byte = static_cast<unsigned char>(bytes_[at_++]);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if ((byte & 0x80) == 0) return value;
  }
  broken_ = true;
  return std::nullopt;
}

std::optional<std::string_view> WireReader::take(std::uint64_t size) {
  if (size > left()) {
    broken_ = true;
    return std::nullopt;
  }
  const std::string_view taken = bytes_.substr(at_, size);
  at_ += size;
  return taken;
}

std::optional<WireField> WireReader::broken() {
  broken_ = true;
  return std::nullopt;
}

// Reads a little-endian number.
std::optional<std::uint64_t> WireReader::fixed(int size) {
  const auto taken = take(static_cast<std::uint64_t>(size));
  if (!taken) return std::nullopt;
  std::uint64_t value = 0;
  for (int i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>((*taken)[i]);
  return value;
}

std::optional<WireField> WireReader::next() {
  if (at_end() || broken_) return std::nullopt;
  const auto key = varint();  // of at most 32 bits; there is no field 0
  if (!key || *key >> 3 == 0 || *key >> 32 != 0) return broken();
  WireField field{.number = static_cast<int>(*key >> 3),
                  .type = static_cast<WireType>(*key & 7),
                  .value = 0,
                  .bytes = {}};
  std::optional<std::uint64_t> value;
  switch (field.type) {
    case WireType::Varint:
      value = varint();
      break;
    case WireType::Fixed64:
      value = fixed(8);
      break;
    case WireType::Fixed32:
      value = fixed(4);
      break;
    case WireType::Bytes:
      if (const auto size = varint()) {
        const auto taken = take(*size);
        if (!taken) return broken();
        field.bytes = *taken;
        return field;
      }
      break;
  }
  if (!value) return broken();
  field.value = *value;
  return field;
}

void WireWriter::varint(std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out_ += static_cast<char>((value & 0x7F) | 0x80);
  out_ += static_cast<char>(value);
}

void WireWriter::number(int field, std::uint64_t value) {
  varint(static_cast<std::uint64_t>(field) << 3);
  varint(value);
}

void WireWriter::bytes(int field, std::string_view value) {
  varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(WireType::Bytes));
  varint(value.size());
  out_ += value;
}

}  // namespace tandem
