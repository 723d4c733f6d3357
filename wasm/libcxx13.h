// Adds the parts of C++20 that the engine uses and that Emscripten 3.1.6's C++ library (libc++ 13,
// in Debian 12) lacks. The compiler includes this file before each source of the preset wasm. With
// a newer library it defines nothing.
#pragma once

#ifdef __cplusplus
#include <algorithm>
#include <bit>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <compare>
#include <concepts>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#if defined(_LIBCPP_VERSION) && _LIBCPP_VERSION < 14000
namespace std {

template <class To, class From>
constexpr To bit_cast(const From& from) noexcept {
  return __builtin_bit_cast(To, from);
}

inline strong_ordering operator<=>(const string& a, const string& b) noexcept {
  return a.compare(b) <=> 0;
}

template <class T>
constexpr auto operator<=>(const optional<T>& a, const optional<T>& b) -> decltype(*a <=> *b) {
  return a && b ? *a <=> *b : a.has_value() <=> b.has_value();
}

// Reads a decimal number, or inf or nan, as the standard says: no blanks, no sign but "-". A number
// that begins with "0x" is its 0.
inline from_chars_result from_chars(const char* first, const char* last, double& value) {
  const char* digits = first != last && *first == '-' ? first + 1 : first;
  if (digits == last || !(isalnum(*digits) || *digits == '.'))
    return {first, errc::invalid_argument};
  const bool hexadecimal = last - digits > 1 && digits[0] == '0' && (digits[1] | 32) == 'x';
  const string text(first, hexadecimal ? digits + 1 : last);
  char* end = nullptr;
  errno = 0;
  const double read = strtod(text.c_str(), &end);
  if (end == text.c_str()) return {first, errc::invalid_argument};
  const char* rest = first + (end - text.c_str());
  // strtod reports subnormal numbers too, which are in range.
  if (errno == ERANGE && (read == 0 || std::abs(read) > 1))
    return {rest, errc::result_out_of_range};
  value = read;
  return {rest, errc{}};
}

namespace ranges {

template <class I>
concept AnIterator = input_or_output_iterator<remove_cvref_t<I>>;

// Returns the comparison that applies the projection to both elements first.
template <class Compare, class Projection>
constexpr auto by(Compare& compare, Projection& project) {
  return [&](const auto& a, const auto& b) -> bool {
    return invoke(compare, invoke(project, a), invoke(project, b));
  };
}

// An algorithm that tests each element with a predicate.
template <auto kAlgorithm>
struct Predicated {
  template <class I, class S, class F, class P = identity>
  requires(AnIterator<I>&& equality_comparable_with<I, S>) constexpr auto operator()(
      I first, S last, F predicate, P project = {}) const {
    return kAlgorithm(first, last,
                      [&](auto&& x) -> bool { return invoke(predicate, invoke(project, x)); });
  }
  template <class R, class F, class P = identity>
  requires(!AnIterator<R>) constexpr auto operator()(R&& r, F predicate, P project = {}) const {
    return (*this)(std::begin(r), std::end(r), std::move(predicate), std::move(project));
  }
};
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::find_if(i, e, f); }> find_if;
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::find_if_not(i, e, f); }>
    find_if_not;
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::any_of(i, e, f); }> any_of;
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::all_of(i, e, f); }> all_of;
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::none_of(i, e, f); }> none_of;
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::count_if(i, e, f); }> count_if;
inline constexpr Predicated<[](auto i, auto e, auto f) { return std::partition_point(i, e, f); }>
    partition_point;

// An algorithm that looks for elements that equal a value.
template <auto kAlgorithm>
struct ValueSearch {
  template <class I, class S, class T, class P = identity>
  requires(AnIterator<I>&& equality_comparable_with<I, S>) constexpr auto operator()(
      I first, S last, const T& value, P project = {}) const {
    return kAlgorithm(first, last, [&](auto&& x) -> bool { return invoke(project, x) == value; });
  }
  template <class R, class T, class P = identity>
  requires(!AnIterator<R>) constexpr auto operator()(R&& r, const T& value, P project = {}) const {
    return (*this)(std::begin(r), std::end(r), value, std::move(project));
  }
};
inline constexpr ValueSearch<[](auto i, auto e, auto f) { return std::find_if(i, e, f); }> find;
inline constexpr ValueSearch<[](auto i, auto e, auto f) { return std::count_if(i, e, f); }> count;

// An algorithm that compares elements by an order: it sorts, or finds the greatest or the least.
template <auto kAlgorithm>
struct Compared {
  template <class I, class S, class C = less, class P = identity>
  requires(AnIterator<I>&& equality_comparable_with<I, S>) constexpr auto operator()(
      I first, S last, C compare = {}, P project = {}) const {
    return kAlgorithm(first, last, by(compare, project));
  }
  template <class R, class C = less, class P = identity>
  requires(!AnIterator<R>) constexpr auto operator()(R&& r, C compare = {}, P project = {}) const {
    return (*this)(std::begin(r), std::end(r), std::move(compare), std::move(project));
  }
};
inline constexpr Compared<[](auto i, auto e, auto f) { std::sort(i, e, f); }> sort;
inline constexpr Compared<[](auto i, auto e, auto f) { std::stable_sort(i, e, f); }> stable_sort;
inline constexpr Compared<[](auto i, auto e, auto f) { return std::max_element(i, e, f); }>
    max_element;
inline constexpr Compared<[](auto i, auto e, auto f) { return std::min_element(i, e, f); }>
    min_element;
inline constexpr Compared<[](auto i, auto e, auto f) { return std::is_sorted(i, e, f); }> is_sorted;
inline constexpr Compared<[](auto i, auto e, auto f) { return *std::max_element(i, e, f); }> max;

// An algorithm that finds a value's place in a sorted range. `before`(x): x comes before the value.
// `after`(x): it comes after.
template <auto kAlgorithm>
struct SortedSearch {
  template <class I, class S, class T, class C = less, class P = identity>
  requires(AnIterator<I>&& equality_comparable_with<I, S>) constexpr auto operator()(
      I first, S last, const T& value, C compare = {}, P project = {}) const {
    return kAlgorithm(
        first, last, [&](auto&& x) -> bool { return invoke(compare, invoke(project, x), value); },
        [&](auto&& x) -> bool { return invoke(compare, value, invoke(project, x)); });
  }
  template <class R, class T, class C = less, class P = identity>
  requires(!AnIterator<R>) constexpr auto operator()(R&& r, const T& value, C compare = {},
                                                     P project = {}) const {
    return (*this)(std::begin(r), std::end(r), value, std::move(compare), std::move(project));
  }
};
inline constexpr SortedSearch<[](auto i, auto e, auto before, auto) {
  return std::partition_point(i, e, before);
}>
    lower_bound;
inline constexpr SortedSearch<[](auto i, auto e, auto, auto after) {
  return std::partition_point(i, e, [&](auto&& x) -> bool { return !after(x); });
}>
    upper_bound;
inline constexpr SortedSearch<[](auto i, auto e, auto before, auto after) {
  const auto at = std::partition_point(i, e, before);
  return at != e && !after(*at);
}>
    binary_search;

// An algorithm over a whole range. Further arguments are passed to it unchanged.
template <auto kAlgorithm>
struct Whole {
  template <class R, class... Given>
  constexpr auto operator()(R&& r, Given... given) const {
    return kAlgorithm(std::begin(r), std::end(r), given...);
  }
};
inline constexpr Whole<[](auto i, auto e, auto value) { std::fill(i, e, value); }> fill;
inline constexpr Whole<[](auto i, auto e) { std::reverse(i, e); }> reverse;
inline constexpr Whole<[](auto i, auto e, auto out) { return std::copy(i, e, out); }> copy;
inline constexpr Whole<[](auto i, auto e, auto out) { return std::move(i, e, out); }> move;
inline constexpr Whole<[](auto i, auto e, auto out, auto f) {
  return std::copy_if(i, e, out, [&](auto&& x) -> bool { return invoke(f, x); });
}>
    copy_if;
inline constexpr Whole<[](auto i, auto e, auto out, auto f) {
  return std::transform(i, e, out, [&](auto&& x) { return invoke(f, x); });
}>
    transform;
inline constexpr Whole<[](auto i, auto e, auto from, auto to) { std::replace(i, e, from, to); }>
    replace;
inline constexpr Whole<[](auto i, auto e, auto f, auto to) { std::replace_if(i, e, f, to); }>
    replace_if;

struct Equal {
  template <class A, class B, class F = equal_to, class P = identity, class Q = identity>
  constexpr bool operator()(const A& a, const B& b, F same = {}, P of_a = {}, Q of_b = {}) const {
    return std::equal(std::begin(a), std::end(a), std::begin(b), std::end(b),
                      [&](const auto& x, const auto& y) -> bool {
                        return invoke(same, invoke(of_a, x), invoke(of_b, y));
                      });
  }
};
inline constexpr Equal equal;

}  // namespace ranges
}  // namespace std
#endif
#endif
