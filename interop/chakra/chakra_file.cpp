// Writes and reads the binary form of one rank's trace: Protocol Buffers messages, each after its
// length in bytes. The first is a GlobalMetadata, all others are Nodes:
//   length, GlobalMetadata, length, Node, length, Node, ...
#include "interop/chakra/chakra_file.h"

#include <fmt/format.h>

#include <utility>

#include "base/xml.h"
#include "interop/chakra/chakra_fields.h"
#include "interop/chakra/wire.h"

namespace tandem {
namespace {

// Field numbers of et_def.proto.
constexpr int kVersion = 1, kMetadataAttribute = 2;
constexpr int kId = 1, kName = 2, kType = 3, kCtrlDeps = 4, kDataDeps = 5, kDuration = 7,
              kAttribute = 10;
constexpr int kAttributeName = 1, kBoolList = 28;
// Tandem's attribute in the metadata, tandem_sends = rendezvous: sends wait for their receives.
constexpr std::string_view kSends = "tandem_sends", kRendezvous = "rendezvous";

void write_attribute(WireWriter* node, int field, std::string_view name, ChakraValue type,
                     std::uint64_t value) {
  WireWriter attribute;
  attribute.bytes(kAttributeName, name);
  attribute.number(static_cast<int>(type), value);
  node->bytes(field, attribute.text());
}

void write_attribute(WireWriter* node, int field, std::string_view name, std::string_view value) {
  WireWriter attribute;
  attribute.bytes(kAttributeName, name);
  attribute.bytes(static_cast<int>(ChakraValue::String), value);
  node->bytes(field, attribute.text());
}

// Writes numbers packed, as proto3 writes repeated numbers.
void write_numbers(WireWriter* node, int field, const std::vector<std::uint64_t>& numbers) {
  if (numbers.empty()) return;
  WireWriter packed;
  for (const std::uint64_t number : numbers) packed.varint(number);
  node->bytes(field, packed.text());
}

std::string node_bytes(const ChakraNode& node) {
  WireWriter out;
  if (node.id != 0) out.number(kId, node.id);
  if (!node.name.empty()) out.bytes(kName, node.name);
  if (node.type != ChakraType::Invalid) out.number(kType, static_cast<std::uint64_t>(node.type));
  write_numbers(&out, kCtrlDeps, node.ctrl_deps);
  write_numbers(&out, kDataDeps, node.data_deps);
  if (node.duration_us != 0) out.number(kDuration, node.duration_us);
  write_attribute(&out, kAttribute, "is_cpu_op", ChakraValue::Bool, node.is_cpu_op ? 1 : 0);
  for (const ChakraInteger& integer : kChakraIntegers) {
    if (const auto& value = node.*integer.value)
      write_attribute(&out, kAttribute, integer.name, integer.written,
                      static_cast<std::uint64_t>(*value));
  }
  for (const ChakraText& text : kChakraTexts) {
    if (const std::string& value = node.*text.value; !value.empty())
      write_attribute(&out, kAttribute, text.name, value);
  }
  return out.text();
}

struct Attribute {
  std::string_view name;
  std::optional<std::int64_t> integer;
  std::string_view text;
  std::string_view flags;  // a BoolList
};

// Decodes protobuf's zigzag numbers: 0, 1, 2, 3 stand for 0, -1, 1, -2.
std::int64_t zigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Returns the value of a field of AttributeProto for a single integer; nothing: it is another
// field. Tools differ in the integer type that they write, so all are read.
std::optional<std::int64_t> integer_of(const WireField& field) {
  const auto plain = static_cast<std::int64_t>(field.value);
  switch (field.number) {
    case 7:   // int32
    case 9:   // int64
    case 11:  // uint32
    case 13:  // uint64
    case 19:  // fixed32
    case 21:  // fixed64
    case 25:  // sfixed64
    case 27:  // bool
      return plain;
    case 15:  // sint32
    case 17:  // sint64
      return zigzag(field.value);
    case 23:  // sfixed32
      return static_cast<std::int32_t>(field.value);
    default:
      return std::nullopt;
  }
}

std::optional<Attribute> attribute_of(std::string_view bytes) {
  Attribute attribute;
  WireReader reader(bytes);
  while (const auto field = reader.next()) {
    if (field->number == kAttributeName) attribute.name = field->bytes;
    if (field->number == static_cast<int>(ChakraValue::String)) attribute.text = field->bytes;
    if (field->number == kBoolList) attribute.flags = field->bytes;
    if (const auto integer = integer_of(*field); integer && field->type != WireType::Bytes)
      attribute.integer = integer;
  }
  if (reader.is_broken()) return std::nullopt;
  return attribute;
}

// Appends the numbers of a repeated field: one by itself, or many packed into bytes.
bool read_numbers(const WireField& field, std::vector<std::uint64_t>* to) {
  if (field.type == WireType::Varint) {
    to->push_back(field.value);
    return true;
  }
  WireReader packed(field.bytes);
  while (!packed.at_end()) {
    const auto number = packed.varint();
    if (!number) return false;
    to->push_back(*number);
  }
  return field.type == WireType::Bytes;
}

// Returns whether a BoolList holds a false. Its values are single fields, or packed with one byte
// each.
bool has_false(std::string_view flags) {
  WireReader reader(flags);
  bool found = false;
  while (const auto field = reader.next()) {
    if (field->type == WireType::Varint) found |= field->value == 0;
    found |= field->bytes.find('\0') != std::string_view::npos;
  }
  return found;
}

void set_attribute(const Attribute& attribute, ChakraNode* node) {
  // The attribute has a flag for each dimension of the network.
  if (attribute.name == "involved_dim") node->some_dimensions = has_false(attribute.flags);
  if (attribute.name == "is_cpu_op" && attribute.integer) node->is_cpu_op = *attribute.integer != 0;
  for (const ChakraInteger& integer : kChakraIntegers) {
    if (integer.name == attribute.name && attribute.integer)
      node->*integer.value = attribute.integer;
  }
  for (const ChakraText& text : kChakraTexts) {
    if (text.name == attribute.name) node->*text.value = attribute.text;
  }
}

// Reads a field into the node, or the node's type into `type`, as it is not checked yet. Returns
// false if the field has another wire type than it should.
bool read_node_field(const WireField& field, std::uint64_t* type, ChakraNode* node) {
  switch (field.number) {
    case kId:
      node->id = field.value;
      return field.type == WireType::Varint;
    case kName:
      node->name = field.bytes;
      return field.type == WireType::Bytes;
    case kType:
      *type = field.value;
      return field.type == WireType::Varint;
    case kCtrlDeps:
      return read_numbers(field, &node->ctrl_deps);
    case kDataDeps:
      return read_numbers(field, &node->data_deps);
    case kDuration:
      node->duration_us = field.value;
      return field.type == WireType::Varint;
    case kAttribute: {
      const auto attribute = attribute_of(field.bytes);
      if (attribute) set_attribute(*attribute, node);
      return field.type == WireType::Bytes && attribute;
    }
    default:
      return true;
  }
}

class Decoder {
 public:
  Decoder(std::string_view bytes, const std::string& path) : reader_(bytes), path_(path) {}

  Result<ChakraTrace> decode() {
    ASSIGN_OR_RETURN(const std::string_view metadata, message());
    RETURN_IF_ERROR(read_metadata(metadata));
    while (!reader_.at_end()) {
      ++number_;
      ASSIGN_OR_RETURN(const std::string_view bytes, message());
      RETURN_IF_ERROR(read_node(bytes));
    }
    return std::move(trace_);
  }

 private:
  Error error(std::string_view message) const { return Error::at(path_, std::string(message)); }

  // Takes the next message, and returns its bytes without the length.
  Result<std::string_view> message() {
    const std::size_t at = reader_.at();
    const auto size = reader_.varint();
    if (size) {
      if (const auto bytes = reader_.take(*size)) return *bytes;
    }
    return error(
        fmt::format("message {} at byte {}: found {}, expected {}", number_, at,
                    size ? fmt::format("{} bytes", reader_.left()) : "no length",
                    size ? fmt::format("{}: the file is cut short, or no Chakra trace", *size)
                         : "a message behind its length"));
  }

  Status read_metadata(std::string_view bytes) {
    WireReader reader(bytes);
    trace_.version.clear();
    std::string schema;
    while (const auto field = reader.next()) {
      if (field->number == kVersion) trace_.version = field->bytes;
      if (field->number != kMetadataAttribute) continue;
      const auto attribute = attribute_of(field->bytes);
      if (!attribute) return error("found a GlobalMetadata that is none, expected a Chakra trace");
      if (attribute->name == "schema") schema = attribute->text;
      if (attribute->name == kSends) trace_.rendezvous = attribute->text == kRendezvous;
    }
    if (reader.is_broken())
      return error("found no GlobalMetadata at its begin, expected a Chakra trace");
    // "1.0.2-chakra.0.0.4": PyTorch's version stands before Chakra's.
    constexpr std::string_view kBefore = "chakra.";
    if (const auto at = schema.find(kBefore); trace_.version.empty() && at != std::string::npos)
      trace_.version = schema.substr(at + kBefore.size());
    if (is_known_chakra_version(trace_.version)) return Done{};
    return error(fmt::format("found schema version '{}', expected 0.0.4 or 1.*", trace_.version));
  }

  Status read_node(std::string_view bytes) {
    ChakraNode& node = trace_.nodes.emplace_back();
    WireReader reader(bytes);
    std::uint64_t type = 0;
    while (const auto field = reader.next()) {
      if (!read_node_field(*field, &type, &node))
        return error(
            fmt::format("message {}: found field {} of another type, expected a Node of "
                        "schema 0.0.4",
                        number_, field->number));
    }
    if (reader.is_broken())
      return error(
          fmt::format("message {}: found bytes that are no message, expected a Node", number_));
    if (type == 0 || type > static_cast<std::uint64_t>(ChakraType::Collective))
      return error(fmt::format("node {} '{}': found node type {}, expected one from 1 to 7",
                               node.id, one_line(node.name), type));
    node.type = static_cast<ChakraType>(type);
    return Done{};
  }

  WireReader reader_;
  const std::string& path_;
  ChakraTrace trace_;
  int number_ = 0;  // of the message; 0: the metadata
};

}  // namespace

bool is_known_chakra_version(std::string_view version) {
  return version.empty() || version == "0.0.4" || version.starts_with("1.");
}

std::string_view collective_name(ChakraCollective collective) {
  constexpr std::array<std::string_view, 10> kNames = {
      "all-reduce", "reduce",         "all-gather",           "gather", "scatter", "broadcast",
      "all-to-all", "reduce-scatter", "reduce-scatter-block", "barrier"};
  const auto at = static_cast<std::size_t>(collective);
  return at < kNames.size() ? kNames[at] : std::string_view();
}

std::string encode_chakra(const ChakraTrace& trace) {
  WireWriter metadata;
  metadata.bytes(kVersion, trace.version);
  if (trace.rendezvous) write_attribute(&metadata, kMetadataAttribute, kSends, kRendezvous);
  WireWriter out;
  out.varint(metadata.text().size());
  out.raw(metadata.text());
  for (const ChakraNode& node : trace.nodes) {
    const std::string bytes = node_bytes(node);
    out.varint(bytes.size());
    out.raw(bytes);
  }
  return out.text();
}

Result<ChakraTrace> decode_chakra(std::string_view bytes, const std::string& path) {
  if (bytes.empty()) return Error::at(path, "found an empty file, expected a Chakra trace");
  return Decoder(bytes, path).decode();
}

}  // namespace tandem
