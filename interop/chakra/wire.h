// Protocol Buffers' wire format, as far as Chakra's traces need it: messages as fields of numbers
// and bytes (https://protobuf.dev/programming-guides/encoding).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tandem {

enum class WireType : std::uint8_t { Varint = 0, Fixed64 = 1, Bytes = 2, Fixed32 = 5 };

// A field of a message: a number, or bytes (a text, a message, packed numbers).
struct WireField {
  int number = 0;
  WireType type = WireType::Varint;
  std::uint64_t value = 0;
  std::string_view bytes;
};

// Reads a message field by field. `bytes` must outlive what is read.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : bytes_(bytes) {}

  // Returns the next field; nothing: the end, or, with is_broken(), malformed bytes.
  std::optional<WireField> next();
  // Reads a number that stands without a field's key; nothing: the bytes end before it does.
  std::optional<std::uint64_t> varint();
  // Takes the next `size` bytes; nothing: there are fewer.
  std::optional<std::string_view> take(std::uint64_t size);

  bool is_broken() const { return broken_; }
  bool at_end() const { return at_ == bytes_.size(); }
  std::size_t at() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }

 private:
  std::optional<WireField> broken();
  std::optional<std::uint64_t> fixed(int size);

  std::string_view bytes_;
  std::size_t at_ = 0;
  bool broken_ = false;
};

// Writes a message field by field, as protobuf's own encoders do.
class WireWriter {
 public:
  void varint(std::uint64_t value);
  void number(int field, std::uint64_t value);
  void bytes(int field, std::string_view value);
  void raw(std::string_view value) { out_ += value; }

  const std::string& text() const { return out_; }

 private:
  std::string out_;
};

}  // namespace tandem
