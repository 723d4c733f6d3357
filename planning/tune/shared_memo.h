// SharedMemo: what threads find, once for all of them.
#pragma once

#include <map>
#include <mutex>
#include <utility>

namespace tandem {

template <class Key, class Value>
class SharedMemo {
 public:
  // What is known by that key, or else what `find` gives; it stays where it is. What two threads
  // find at once is the same.
  template <class Find>
  const Value& of(const Key& key, const Find& find) {
    {
      const std::lock_guard lock(mutex_);
      const auto known = values_.find(key);
      if (known != values_.end()) return known->second;
    }
    Value found = find();
    const std::lock_guard lock(mutex_);
    return values_.try_emplace(key, std::move(found)).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<Key, Value> values_;
};

}  // namespace tandem
