// The attributes of Chakra's nodes, by name, in tables that the readers and the writer share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "interop/chakra/chakra_trace.h"

namespace tandem {

// The types of a single value, by their field numbers in AttributeProto.
enum class ChakraValue { Int32 = 7, Int64 = 9, Uint64 = 13, Bool = 27, String = 29 };

struct ChakraInteger {
  std::string_view name;
  ChakraValue written;  // the type that we write, as ASTRA-sim's feeder expects it
  std::optional<std::int64_t> ChakraNode::*value;
};

inline constexpr std::array<ChakraInteger, 9> kChakraIntegers = {{
    {"num_ops", ChakraValue::Int64, &ChakraNode::num_ops},
    {"tensor_size", ChakraValue::Uint64, &ChakraNode::tensor_size},
    {"comm_type", ChakraValue::Int64, &ChakraNode::comm_type},
    {"comm_size", ChakraValue::Int64, &ChakraNode::comm_size},
    {"comm_src", ChakraValue::Int32, &ChakraNode::comm_src},
    {"comm_dst", ChakraValue::Int32, &ChakraNode::comm_dst},
    {"comm_tag", ChakraValue::Int32, &ChakraNode::comm_tag},
    {"tandem_stage", ChakraValue::Int32, &ChakraNode::stage},
    {"tandem_microbatch", ChakraValue::Int32, &ChakraNode::microbatch},
}};

struct ChakraText {
  std::string_view name;
  std::string ChakraNode::*value;
};

inline constexpr std::array<ChakraText, 3> kChakraTexts = {{
    {"pg_name", &ChakraNode::pg_name},
    {"tandem_kind", &ChakraNode::kind},
    {"tandem_group", &ChakraNode::group_kind},
}};

// Returns whether a file's version can be read: 0.0.4, 1.*, or "", which stands for a version that
// the file does not state.
bool is_known_chakra_version(std::string_view version);

}  // namespace tandem
