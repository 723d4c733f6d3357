// SimGrid as a FlowSolver: the plugin libtandem_simgrid.so.
//
// SimGrid knows routes only between hosts. So each of our routes is a host of a star zone, whose
// way up is the list of the route's links; the way down to the only sink is empty:
//
//   route0 --link3--link7--+
//   route1 --link5--link7--+-- sink
//
// So SimGrid sees exactly the links of our topology. Links have no latency (the playback adds each
// operation's own), which also gives all flows the same weight. A route's limit is one more link, a
// FATPIPE: its bandwidth bounds each flow and is not shared (in 3.32, Comm::set_rate does not work
// for communication between hosts).
#include <simgrid/kernel/Timer.hpp>

#include <fmt/format.h>
#include <xbt/log.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <map>

#include "base/check.h"
#include "sim/flows.h"
#include "sim/simgrid_version.h"

namespace tandem {
namespace {

namespace s4u = simgrid::s4u;
using simgrid::kernel::timer::Timer;

// Puts back the process's signal handlers at its end: SimGrid sets its own for Ctrl-C and faults,
// which are of no use when the simulation is over.
class OwnSignals {
 public:
  OwnSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], nullptr, &actions_[i]);
  }
  OwnSignals(const OwnSignals&) = delete;
  OwnSignals& operator=(const OwnSignals&) = delete;
  ~OwnSignals() {
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &actions_[i], nullptr);
  }

 private:
  static constexpr std::array kSignals = {SIGINT, SIGSEGV, SIGBUS};
  std::array<struct sigaction, kSignals.size()> actions_{};
};

// SimGrid's payloads are whole numbers, here of 1/256 bytes. Whole bytes would be too coarse: on a
// NIC of 1 Gbit/s that eight flows share, half a byte takes 32 ns, and the bytes that a flow has
// left are rounded each time it comes from a closed form.
constexpr double kUnitsPerByte = 256;

class SimGridSolver final : public FlowSolver {
 public:
  explicit SimGridSolver(const FlowNetwork& network) : engine_(make_engine()) {
    s4u::NetZone* zone = simgrid_version::star_zone(engine_);
    for (std::size_t i = 0; i < network.bytes_per_s.size(); ++i)
      links_.push_back(
          zone->create_link(fmt::format("link{}", i), kUnitsPerByte * network.bytes_per_s[i])
              ->set_latency(0)
              ->seal());
    add_routes(network, zone);
    zone->seal();
    schedule_changes(network);
  }

  void start(std::int32_t flow, std::int32_t route, double bytes) override {
    if (static_cast<std::size_t>(flow) >= comms_.size()) comms_.resize(flow + 1);
    s4u::CommPtr comm = s4u::Comm::sendto_init(sources_[route], sink_);
    comm->set_payload_size(static_cast<std::uint64_t>(std::max(1.0, kUnitsPerByte * bytes + 0.5)));
    comm->set_data(reinterpret_cast<void*>(static_cast<std::intptr_t>(flow) + 1));
    // SimGrid caps a flow for good at the least bandwidth that its links have at its start. So each
    // link gets its greatest bandwidth for that moment.
    for (const ChangingLink* changing : changing_on_[route])
      changing->link->set_bandwidth(changing->greatest);
    simgrid_version::start(*comm);
    for (const ChangingLink* changing : changing_on_[route])
      changing->link->set_bandwidth(changing->now);
    comms_[flow] = comm;  // SimGrid itself keeps no reference until the flow ends
  }

  void wake_at(Nanoseconds time) override {
    if (wake_ != nullptr) wake_->remove();
    wake_ns_ = time;
    const double date = std::max(to_seconds(time), s4u::Engine::get_clock());
    wake_ = Timer::set(date, [this] {
      wake_ = nullptr;
      listener_->on_wake(wake_ns_);
    });
  }

  void run(FlowListener* listener) override {
    listener_ = listener;
    simgrid_version::on_comm_end([this](s4u::Comm const& comm) { flow_ended(comm); });
    engine_.run();
  }

 private:
  // A link whose bandwidth changes, and its bandwidths (units/s).
  struct ChangingLink {
    s4u::Link* link = nullptr;
    double greatest = 0, now = 0;
  };

  static s4u::Engine& make_engine() {
    const OwnSignals own;
    // These arguments keep SimGrid from printing a line for every setting that follows.
    static char arguments[][64] = {"tandem", "--log=root.thres:critical"};
    static char* argv[] = {arguments[0], arguments[1], nullptr};
    static int argc = 2;
    static s4u::Engine engine(&argc, argv);
    s4u::Engine::set_config("network/model:CM02");
    s4u::Engine::set_config("network/TCP-gamma:1e30");  // no bound from latency
    s4u::Engine::set_config("network/crosstraffic:0");  // no acknowledgements the other way
    s4u::Engine::set_config("network/weight-S:0");      // links' bandwidth does not weigh on flows
    s4u::Engine::set_config("surf/precision:1e-12");
    return engine;
  }

  void add_routes(const FlowNetwork& network, s4u::NetZone* zone) {
    sink_ = zone->create_host("sink", 1e9)->seal();
    zone->add_route(nullptr, sink_->get_netpoint(), nullptr, nullptr, {}, /*symmetrical=*/false);
    for (std::size_t i = 0; i < network.routes.size(); ++i) {
      sources_.push_back(zone->create_host(fmt::format("route{}", i), 1e9)->seal());
      std::vector<s4u::LinkInRoute> way;
      for (const std::int32_t link : network.routes[i]) way.emplace_back(links_[link]);
      if (const double limit = network.route_limits[i]; limit > 0)
        way.emplace_back(zone->create_link(fmt::format("limit{}", i), kUnitsPerByte * limit)
                             ->set_latency(0)
                             ->set_sharing_policy(s4u::Link::SharingPolicy::FATPIPE)
                             ->seal());
      zone->add_route(sources_.back()->get_netpoint(), nullptr, nullptr, nullptr, way,
                      /*symmetrical=*/false);
    }
  }

  void schedule_changes(const FlowNetwork& network) {
    for (const LinkChange& change : network.changes) {
      const auto [at, is_new] = changing_.try_emplace(change.link);
      ChangingLink& changing = at->second;
      if (is_new) {
        s4u::Link* link = links_[change.link];
        changing = {link, link->get_bandwidth(), link->get_bandwidth()};
      }
      const double bandwidth = kUnitsPerByte * change.bytes_per_s;
      changing.greatest = std::max(changing.greatest, bandwidth);
      const auto apply = [&changing, bandwidth] {
        changing.now = bandwidth;
        changing.link->set_bandwidth(bandwidth);
      };
      if (change.at_ns > 0) {
        Timer::set(to_seconds(change.at_ns), apply);
      } else {
        apply();
      }
    }
    for (const std::vector<std::int32_t>& route : network.routes) {
      std::vector<ChangingLink*>& own = changing_on_.emplace_back();
      for (const std::int32_t link : route) {
        if (const auto at = changing_.find(link); at != changing_.end()) own.push_back(&at->second);
      }
    }
  }

  void flow_ended(s4u::Comm const& comm) {
    const auto tag = reinterpret_cast<std::intptr_t>(comm.get_data<void>());
    if (tag == 0) return;
    CHECK(comm.get_state() == s4u::Activity::State::FINISHED);
    const std::int32_t flow = static_cast<std::int32_t>(tag - 1);
    last_ended_ = std::move(comms_[flow]);  // `comm` itself, so not freed in this callback
    listener_->on_flow_end(flow, to_ns(s4u::Engine::get_clock()));
  }

  s4u::Engine& engine_;
  s4u::Host* sink_ = nullptr;
  std::vector<s4u::Host*> sources_;  // by route
  std::vector<s4u::Link*> links_;
  std::map<std::int32_t, ChangingLink> changing_;        // by link
  std::vector<std::vector<ChangingLink*>> changing_on_;  // by route
  std::vector<s4u::CommPtr> comms_;                      // by flow, while in flight
  s4u::CommPtr last_ended_;
  Timer* wake_ = nullptr;
  Nanoseconds wake_ns_ = 0;
  FlowListener* listener_ = nullptr;
};

}  // namespace
}  // namespace tandem

extern "C" __attribute__((visibility("default"))) tandem::FlowSolver* tandem_make_flow_solver(
    const tandem::FlowNetwork& network) {
  return new tandem::SimGridSolver(network);
}
