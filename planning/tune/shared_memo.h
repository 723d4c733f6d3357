// SharedMemo: a map that remembers results for several threads.
#pragma once

#include <map>
#include <mutex>
#include <utility>

namespace tandem {

template <class Key, class Value>
class SharedMemo {
 public:
  // Returns the value known for the key, or else the result of `find`, which is then kept. The
  // reference stays valid. Two threads may compute a value at the same time: the first one is kept.
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
