// The Python module tandem._tandem: runs the calls with Python's lock released, and raises Errors
// as exceptions. The package around it (tandem/*.py) makes the objects that users see.
#include <pthread.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <mutex>

#include "base/csv.h"
#include "base/data_dir.h"
#include "base/xml.h"
#include "planning/sweep/results.h"
#include "planning/tune/space.h"
#include "python/calls.h"
#include "schedule/order/named_orders.h"
#include "traces/event_records.h"

namespace py = pybind11;

namespace tandem {
namespace {

// An Error's place: "file:line", or the parameter for an option of the command, such as "--only".
struct PythonPlace {
  std::string file, parameter;
  int line = 0;
};

PythonPlace place_of(const std::string& source, const CallParameters& call) {
  if (source.starts_with("--")) return {.parameter = source.substr(2)};
  const bool is_scenario = source == call.path || source.starts_with(call.path + ':');
  if (call.text && is_scenario) return {};  // it is in no file
  const std::size_t colon = source.rfind(':');
  const auto line = parse_integer(colon == std::string::npos ? "" : source.substr(colon + 1));
  if (!line.ok()) return {.file = source};
  return {.file = source.substr(0, colon), .line = static_cast<int>(*line)};
}

// Returns None for an empty text or 0.
template <class T>
py::object or_none(const T& value) {
  return value == T{} ? py::object(py::none()) : py::cast(value);
}

// Raises the exception that tandem/errors.py makes for the Error.
[[noreturn]] void raise(const Error& error, const CallParameters& call) {
  const PythonPlace place = place_of(error.place.source, call);
  const std::string key = error.place.keys.empty() ? "" : error.place.keys.front();
  std::string text = printable(
      place.parameter.empty() ? error.text() : place.parameter + ": " + kept_short(error.message));
  if (text.starts_with("--")) text.erase(0, 2);  // "--among: found ..."
  const py::object exception =
      py::module_::import("tandem.errors")
          .attr("exception_of")(static_cast<int>(error.kind), text, or_none(key),
                                or_none(place.file), or_none(place.line));
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

// Lets one thread work in calls at a time. Calls fork, and a lock that another thread holds at that
// moment would stay locked in the child. A progress function may make a further call: calls of one
// thread may be nested.
class CallLock {
 public:
  explicit CallLock(Interrupt* interrupt) : lock_(*mutex, std::defer_lock) {
    while (calls == 0 && !lock_.try_lock_for(std::chrono::milliseconds(100))) interrupt->check();
    ++calls;
  }
  CallLock(const CallLock&) = delete;
  CallLock& operator=(const CallLock&) = delete;
  ~CallLock() { --calls; }

  // If Python forks while another thread is in a call, that thread does not exist in the child and
  // will never unlock the mutex. So the child gets a new one.
  static void renew_in_children() {
    pthread_atfork(nullptr, nullptr, [] {
      if (calls == 0) mutex = new std::timed_mutex;
    });
  }

 private:
  static inline std::timed_mutex* mutex = new std::timed_mutex;
  static inline thread_local int calls = 0;  // of this thread, nested

  std::unique_lock<std::timed_mutex> lock_;
};

// Runs work(&interrupt) without Python's lock. Returns its value, or raises its Error.
template <class Work>
auto without_lock(const CallParameters& call, const Work& work) {
  Interrupt interrupt;
  auto result = [&] {
    const py::gil_scoped_release release;
    const CallLock lock(&interrupt);
    auto value = work(&interrupt);
    interrupt.check();
    return value;
  }();
  if (!result.ok()) raise(result.error(), call);
  return std::move(*result);
}

// Makes the progress function of a call: it looks for Ctrl-C, then calls Python's, if there is one.
OnDone progress_function(const py::object& on_done, Interrupt* interrupt) {
  return [&on_done, interrupt](int done, int total) {
    interrupt->check();
    if (on_done.is_none()) return;
    const py::gil_scoped_acquire lock;
    on_done(done, total);
  };
}

py::tuple simulate_one(const CallParameters& call, bool unfolded, bool trace,
                       const py::object& on_done) {
  PlayedRun one = without_lock(call, [&](Interrupt* interrupt) {
    return play_one(call, unfolded, trace, progress_function(on_done, interrupt));
  });
  return py::make_tuple(one.json, py::cast(std::move(one.trace)));
}

std::string page_of_run(const CallParameters& call, const py::object& on_done) {
  return without_lock(call, [&](Interrupt* interrupt) {
    return live_page(call, progress_function(on_done, interrupt));
  });
}

std::string explain_measured(const CallParameters& call, const std::vector<std::string>& measured) {
  return without_lock(call,
                      [&](Interrupt* interrupt) { return explain_run(call, measured, interrupt); });
}

std::string compare_run(const CallParameters& call, const std::string& measured,
                        const std::string& passes, std::optional<int> worst) {
  return without_lock(call, [&](Interrupt* interrupt) {
    return compare_measured(call, measured, passes, worst, interrupt);
  });
}

std::string validate_runs(const CallParameters& call, int iterations, double timeout_s,
                          const std::string& folder) {
  const MeasureOptions options{.iterations = iterations, .timeout_s = timeout_s, .folder = folder};
  return without_lock(
      call, [&](Interrupt* interrupt) { return validate_suite(call, options, interrupt); });
}

py::tuple play_real(const CallParameters& call, bool gemm, double gemm_scale, int iterations,
                    int warmup, double timeout_s) {
  RealOptions options;
  options.exec.compute = gemm ? Compute::Gemm : Compute::Timed;
  options.exec.gemm_scale = gemm_scale;
  options.exec.iterations = iterations;
  options.exec.warmup = warmup;
  options.exec.timeout_ns = to_ns(timeout_s);
  PlayedRun one =
      without_lock(call, [&](Interrupt* interrupt) { return run_real(call, options, interrupt); });
  return py::make_tuple(one.json, py::cast(std::move(one.trace)));
}

std::string simulate_many(const CallParameters& call, bool unfolded, const py::object& on_done) {
  return without_lock(call,
                      [&](Interrupt* interrupt) {
                        return play_all(call, unfolded, progress_function(on_done, interrupt));
                      })
      .json;
}

py::dict sweep_runs(const CallParameters& call, const std::string& output, const std::string& list,
                    const py::object& on_done) {
  const Swept swept = without_lock(call, [&](Interrupt* interrupt) {
    return sweep_into(call, output, list, progress_function(on_done, interrupt));
  });
  using namespace py::literals;
  return py::dict("path"_a = swept.path, "rows"_a = swept.rows, "failed"_a = swept.failed,
                  "kept"_a = swept.kept, "first_failure"_a = or_none(swept.first_failure));
}

std::string tune_scenario(const CallParameters& call, const std::vector<std::string>& among,
                          const std::string& framework, int keep, double seconds,
                          const py::object& on_better) {
  return without_lock(call, [&](Interrupt* interrupt) {
    return tune_plan(call, among, framework, keep, seconds, interrupt,
                     [&](const std::string& line) {
                       if (on_better.is_none()) return;
                       const py::gil_scoped_acquire lock;
                       on_better(line);
                     });
  });
}

std::string size_scenario(const CallParameters& call, const std::vector<std::string>& among) {
  return without_lock(call,
                      [&](Interrupt* interrupt) { return size_purchase(call, among, interrupt); });
}

py::dict order_drawn(const OrderRequest& request) {
  const DrawnOrder order =
      without_lock(request.call, [&](Interrupt*) { return draw_order(request); });
  using namespace py::literals;
  return py::dict("name"_a = order.name, "grid"_a = order.grid, "actions"_a = order.actions,
                  "communication"_a = order.communication, "pp"_a = order.ranks,
                  "stages"_a = order.stages, "microbatches"_a = order.microbatches);
}

// Lists the fields of an EventRecord (traces/event_records.h), in its order, with numpy's types.
std::vector<std::pair<std::string, std::string>> record_fields() {
  return {{"rank", "<i4"},  {"lane", "<u2"},      {"kind", "u1"},      {"group", "i1"},
          {"op", "<i8"},    {"stage", "<i2"},     {"part", "<i2"},     {"microbatch", "<i4"},
          {"bytes", "<i8"}, {"arrive_ns", "<i8"}, {"start_ns", "<i8"}, {"end_ns", "<i8"}};
}

py::buffer_info memory_of(SharedTrace& trace) {
  const std::span<const char> bytes = trace.bytes();
  return {const_cast<char*>(bytes.data()), 1, "B", 1, {bytes.size()}, {1}, /*readonly=*/true};
}

}  // namespace
}  // namespace tandem

PYBIND11_MODULE(_tandem, module) {
  using namespace tandem;
  module.attr("__version__") = TANDEM_VERSION;
  CallLock::renew_in_children();
  py::class_<SharedTrace>(module, "SharedTrace", py::buffer_protocol()).def_buffer(&memory_of);
  py::class_<CallParameters>(module, "CallParameters")
      .def(py::init<std::string, std::optional<std::string>, std::vector<std::string>, std::string,
                    std::string, int>(),
           py::arg("path"), py::arg("text"), py::arg("sets"), py::arg("only"), py::arg("engine"),
           py::arg("jobs"));
  py::class_<OrderRequest>(module, "OrderRequest")
      .def(py::init<CallParameters, std::string, std::string,
                    std::optional<std::vector<std::vector<std::string>>>, int, int, int, int,
                    std::vector<double>, double, bool>(),
           py::arg("call"), py::arg("name"), py::arg("file"), py::arg("rows"), py::arg("pp"),
           py::arg("microbatches"), py::arg("vpp"), py::arg("group"), py::arg("costs"),
           py::arg("memory_limit"), py::arg("expert_overlap"));
  module.def("simulate_one", &simulate_one, py::arg("call"), py::arg("unfolded"), py::arg("trace"),
             py::arg("on_done"));
  module.def("page_of_run", &page_of_run, py::arg("call"), py::arg("on_done"));
  module.def("explain_measured", &explain_measured, py::arg("call"), py::arg("measured"));
  module.def("compare_run", &compare_run, py::arg("call"), py::arg("measured"), py::arg("passes"),
             py::arg("worst"));
  module.def("validate_runs", &validate_runs, py::arg("call"), py::arg("iterations"),
             py::arg("timeout_s"), py::arg("folder"));
  module.def("play_real", &play_real, py::arg("call"), py::arg("gemm"), py::arg("gemm_scale"),
             py::arg("iterations"), py::arg("warmup"), py::arg("timeout_s"));
  module.def("simulate_many", &simulate_many, py::arg("call"), py::arg("unfolded"),
             py::arg("on_done"));
  module.def("sweep_runs", &sweep_runs, py::arg("call"), py::arg("output"), py::arg("list"),
             py::arg("on_done"));
  module.def("holds_texts", &holds_texts, py::arg("column"));
  module.def("tune_scenario", &tune_scenario, py::arg("call"), py::arg("among"),
             py::arg("framework"), py::arg("keep"), py::arg("seconds"), py::arg("on_better"));
  module.def("size_scenario", &size_scenario, py::arg("call"), py::arg("among"));
  module.def("order_drawn", &order_drawn, py::arg("request"));
  module.def("record_fields", &record_fields);
  module.def("data_dir", &data_dir);
  module.def("order_names", [] { return order_names(); });
}
