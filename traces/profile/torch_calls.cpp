// Finds what a call such as aten::mm computes. A table says which arguments of each operator count;
// their shapes give the GEMM's m, n and k, attention's FLOPs, or a pass's bytes.
#include "traces/profile/torch_calls.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace tandem {
namespace {

// Product: of matrices. Pass: reads and writes tensors, element by element.
enum class CallKind { Product, Attention, AttentionBackward, Pass, Copy };

// An operator, and the positions of the arguments that count; the first argument is 0.
struct CallForm {
  std::string_view name;
  CallKind kind;
  std::size_t first = 0;   // product: the left matrix; attention: queries, then keys and values
  std::size_t causal = 0;  // attention: is_causal
};

// Positions are those in PyTorch 2.0 to 2.9: aten/src/ATen/native/native_functions.yaml.
constexpr std::array<CallForm, 23> kCalls = {{
    {"aten::mm", CallKind::Product},
    {"aten::bmm", CallKind::Product},
    {"aten::addmm", CallKind::Product, 1},
    {"aten::baddbmm", CallKind::Product, 1},
    {"aten::_scaled_mm", CallKind::Product},
    {"aten::_scaled_dot_product_flash_attention", CallKind::Attention, 0, 4},
    {"aten::_scaled_dot_product_efficient_attention", CallKind::Attention, 0, 6},
    {"aten::_scaled_dot_product_cudnn_attention", CallKind::Attention, 0, 6},
    {"aten::_scaled_dot_product_flash_attention_backward", CallKind::AttentionBackward, 1, 11},
    {"aten::add", CallKind::Pass},
    {"aten::add_", CallKind::Pass},
    {"aten::sub", CallKind::Pass},
    {"aten::mul", CallKind::Pass},
    {"aten::mul_", CallKind::Pass},
    {"aten::div", CallKind::Pass},
    {"aten::gelu", CallKind::Pass},
    {"aten::gelu_backward", CallKind::Pass},
    {"aten::silu", CallKind::Pass},
    {"aten::silu_backward", CallKind::Pass},
    {"aten::relu", CallKind::Pass},
    {"aten::tanh", CallKind::Pass},
    {"aten::sigmoid", CallKind::Pass},
    {"aten::copy_", CallKind::Copy},
}};

struct TypeForm {
  std::string_view torch, dtype;
  int bytes;
};
constexpr std::array<TypeForm, 5> kTypes = {{
    {"float", "fp32", 4},
    {"c10::BFloat16", "bf16", 2},
    {"c10::Half", "fp16", 2},
    {"c10::Float8_e4m3fn", "fp8", 1},
    {"c10::Float8_e5m2", "fp8", 1},
}};

// Sizes of a tensor. Empty for arguments that do not count: a scalar, or a tensor with a size of 0.
using Shape = std::vector<std::int64_t>;

const CallForm* form_of(std::string_view name) {
  const auto* const form = std::ranges::find(kCalls, name, &CallForm::name);
  return form == kCalls.end() ? nullptr : form;
}

const TypeForm* type_of(const std::vector<std::string>& types, std::size_t at) {
  if (at >= types.size()) return nullptr;
  const auto* const type = std::ranges::find(kTypes, types[at], &TypeForm::torch);
  return type == kTypes.end() ? nullptr : type;
}

// Returns a shape for each argument: [[4096, 1024], []] for an mm's matrix and a scalar. A list of
// tensors has an empty shape.
std::vector<Shape> shapes_of(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_array()) return {};
  std::vector<Shape> shapes;
  for (const auto& tensor : json) {
    Shape shape;
    const bool is_plain = tensor.is_array() && std::ranges::all_of(tensor, [](const auto& size) {
                            return size.is_number_integer() && size > 0;
                          });
    if (is_plain) shape = tensor.get<Shape>();
    shapes.push_back(std::move(shape));
  }
  return shapes;
}

std::vector<std::string> texts_of(std::string_view text) {
  const auto json = nlohmann::json::parse(text, nullptr, false);
  std::vector<std::string> texts;
  if (!json.is_array()) return texts;
  for (const auto& value : json) texts.push_back(value.is_string() ? value.get<std::string>() : "");
  return texts;
}

// Returns how many numbers the tensor has.
double numbers_of(const Shape& shape) {
  double numbers = 1;
  for (const std::int64_t size : shape) numbers *= static_cast<double>(size);
  return numbers;
}

std::optional<CostRow> product(const std::vector<Shape>& shapes, std::size_t first) {
  if (first + 1 >= shapes.size()) return std::nullopt;
  const Shape &left = shapes[first], &right = shapes[first + 1];
  const std::size_t sizes = left.size();
  if ((sizes != 2 && sizes != 3) || right.size() != sizes) return std::nullopt;
  if (left[sizes - 1] != right[sizes - 2] || (sizes == 3 && left[0] != right[0]))
    return std::nullopt;
  // Both factors of a batched product are taken for activations, as in Q x K and scores x V, which
  // stay in 16 bits.
  const Gemm gemm{.batch = sizes == 3 ? left[0] : 1,
                  .m = left[sizes - 2],
                  .n = right[sizes - 1],
                  .k = left[sizes - 1],
                  .in_16_bits = sizes == 3};
  return CostRow{.what = CostKind::Gemm, .gemms = {gemm}};
}

// Shapes of queries, keys and values are [batch, heads, positions, head size]. FLOPs are counted as
// in the cost model. Forward has two products, Q x K and scores x V:
//   2 * batch * heads * positions(Q) * positions(K) * (head size(Q) + head size(V))
// A causal mask (is_causal) halves that; under a mask that is a tensor, all is computed. Backward
// has 2.5 times that (FlashAttention-2, arXiv:2307.08691, section 4.1).
std::optional<CostRow> attention(const CallForm& form, const std::vector<Shape>& shapes,
                                 const std::vector<std::string>& values) {
  if (form.first + 2 >= shapes.size() || form.causal >= values.size()) return std::nullopt;
  const Shape &query = shapes[form.first], &key = shapes[form.first + 1],
              &value = shapes[form.first + 2];
  if (query.size() != 4 || key.size() != 4 || value.size() != 4) return std::nullopt;
  const bool is_causal = values[form.causal] == "True";
  if (!is_causal && values[form.causal] != "False") return std::nullopt;
  double flops = 2 * numbers_of({query[0], query[1], query[2], key[2]}) *
                 (static_cast<double>(query[3]) + static_cast<double>(value[3]));
  if (is_causal) flops /= 2;
  if (form.kind == CallKind::AttentionBackward) flops *= 2.5;
  return CostRow{.what = CostKind::Attention, .attention_flops = flops};
}

// Returns the bytes of a pass: those of all its arguments, and of an output as large as the largest
// argument. A copy's output is already one of its arguments.
std::optional<CostRow> pass(CallKind kind, const std::vector<Shape>& shapes,
                            const std::vector<std::string>& types) {
  double bytes = 0, largest = 0;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (shapes[i].empty()) continue;
    const TypeForm* const type = type_of(types, i);
    if (type == nullptr) return std::nullopt;
    const double own = numbers_of(shapes[i]) * type->bytes;
    bytes += own;
    largest = std::max(largest, own);
  }
  if (kind != CallKind::Copy) bytes += largest;
  if (bytes == 0) return std::nullopt;
  return CostRow{.what = CostKind::Memory, .bytes = bytes};
}

}  // namespace

bool is_priced_call(std::string_view name) { return form_of(name) != nullptr; }

std::optional<PricedCall> priced_call(std::string_view name, const TorchArguments& arguments) {
  const CallForm* const form = form_of(name);
  if (form == nullptr) return std::nullopt;
  const std::vector<Shape> shapes = shapes_of(arguments.shapes);
  const std::vector<std::string> types = texts_of(arguments.types);
  const TypeForm* const type = type_of(types, form->first);
  if (type == nullptr) return std::nullopt;
  std::optional<CostRow> row;
  switch (form->kind) {
    case CallKind::Product:
      row = product(shapes, form->first);
      break;
    case CallKind::Attention:
    case CallKind::AttentionBackward:
      row = attention(*form, shapes, texts_of(arguments.values));
      break;
    case CallKind::Pass:
    case CallKind::Copy:
      row = pass(form->kind, shapes, types);
      break;
  }
  if (!row) return std::nullopt;
  return PricedCall{*std::move(row), type->dtype};
}

}  // namespace tandem
