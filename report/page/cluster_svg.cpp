// Draws a cluster's graph as an SVG of boxes in rows, with lines between them. Above: the fabric,
// switches over nodes. Below: the inside of one node. A switch's row is its number of hops from the
// nodes, by breadth-first search. The barycentre heuristic orders the boxes of a row, so that few
// lines cross: a box moves to the mean place of the boxes that it is joined to.
#include "report/page/cluster_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <queue>
#include <set>

#include "base/check.h"
#include "base/hostlist.h"
#include "base/units.h"
#include "base/xml.h"

namespace tandem {
namespace {

constexpr std::size_t kMostNodes = 24;  // with more nodes those on the same switches share a box
// Pixels.
constexpr double kPictureWidth = 1180, kMargin = 16, kRowHeight = 110, kBoxHeight = 30;
constexpr double kWidestBox = 130, kGap = 6;

// A box of the picture: a switch, GPU or NIC, or one or several nodes.
struct Box {
  std::string label, title, css_class;
  double x = 0, y = 0;  // of its centre
  double width = 0;
};

// All links between two boxes, which are drawn as one line.
struct Bundle {
  int links = 0;
  double bytes_per_s = 0;
};

// Shortens a name to its end ("..leaf12"), in which neighbours' names differ. UTF-8 characters stay
// whole.
std::string tail_of(const std::string& name, std::size_t most) {
  if (name.size() <= most) return name;
  std::size_t begin = name.size() - most + 2;
  while (begin < name.size() && (static_cast<unsigned char>(name[begin]) & 0xC0) == 0x80) ++begin;
  return ".." + name.substr(begin);
}

// Boxes in rows from the top, and the lines between them.
class BoxPicture {
 public:
  // Returns the box's index.
  int add(int row, Box box) {
    if (static_cast<int>(rows_.size()) <= row) rows_.resize(row + 1);
    const int index = static_cast<int>(boxes_.size());
    rows_[row].push_back(index);
    boxes_.push_back(std::move(box));
    return index;
  }

  void join(int a, int b, double bytes_per_s) {
    if (a == b) return;
    Bundle& bundle = bundles_[std::minmax(a, b)];
    ++bundle.links;
    bundle.bytes_per_s += bytes_per_s;
  }

  void drop_empty_rows() {
    std::erase_if(rows_, [](const std::vector<int>& row) { return row.empty(); });
  }

  double height() const { return static_cast<double>(rows_.size()) * kRowHeight; }

  // Places all rows from the bottom up, four times. From the second time on, each row is first
  // sorted by the mean x of the lower boxes that its boxes join.
  void place(double top) {
    for (int round = 0; round < 4; ++round) {
      for (std::size_t row = rows_.size(); row-- > 0;) place_row(row, top, round > 0);
    }
  }

  void draw(std::string* svg) const {
    double fastest = 1;
    for (const auto& [ends, bundle] : bundles_) fastest = std::max(fastest, bundle.bytes_per_s);
    for (const auto& [ends, bundle] : bundles_)
      draw_line(boxes_[ends.first], boxes_[ends.second], bundle, bundle.bytes_per_s / fastest, svg);
    for (const Box& box : boxes_) {
      constexpr double kCharacter = 6.2;  // the mean width of a character
      const auto fits = static_cast<std::size_t>(std::max(3.0, box.width / kCharacter));
      *svg += fmt::format(
          "<g class=\"{}\"><title>{}</title><rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" "
          "height=\"{}\" rx=\"4\"/>",
          box.css_class, xml_escaped(box.title), box.x - box.width / 2, box.y - kBoxHeight / 2,
          box.width, kBoxHeight);
      if (box.width >= 24)
        *svg += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>", box.x, box.y + 3.5,
                            xml_escaped(tail_of(box.label, fits)));
      *svg += "</g>\n";
    }
  }

 private:
  // Draws a line that is wider the larger `share` is: its bandwidth over that of the fastest line.
  static void draw_line(const Box& a, const Box& b, const Bundle& bundle, double share,
                        std::string* svg) {
    const std::string rate = bundle.bytes_per_s > 0
                                 ? fmt::format("{:.4g} GB/s a direction", bundle.bytes_per_s / GB)
                                 : "a wire that limits nothing";
    const std::string title =
        fmt::format("{} - {}: {}{}", a.title, b.title,
                    bundle.links > 1 ? fmt::format("{} links, ", bundle.links) : "", rate);
    *svg +=
        fmt::format("<path d=\"{}\" stroke-width=\"{:.2f}\"{}><title>{}</title></path>\n",
                    path_of(a, b), 0.6 + 3.4 * std::sqrt(share),
                    bundle.bytes_per_s > 0 ? "" : " stroke-dasharray=\"2 3\"", xml_escaped(title));
  }

  // Sorts a row by the mean x of the lower boxes that each box is joined to. A box that is joined
  // to none keeps its x.
  void sort_by_lower_boxes(std::vector<int>* row) {
    struct Sum {
      double x = 0;
      int boxes = 0;
    };
    std::map<int, Sum> lower;
    for (const auto& [ends, bundle] : bundles_) {
      for (const auto& [own, other] : {ends, std::pair(ends.second, ends.first)}) {
        if (boxes_[other].y <= boxes_[own].y) continue;
        lower[own].x += boxes_[other].x;
        ++lower[own].boxes;
      }
    }
    std::ranges::stable_sort(*row, {}, [&](int box) {
      const auto sum = lower.find(box);
      return sum == lower.end() ? boxes_[box].x : sum->second.x / sum->second.boxes;
    });
  }

  void place_row(std::size_t row, double top, bool sort_by_lower) {
    std::vector<int>& boxes = rows_[row];
    if (sort_by_lower && row + 1 < rows_.size()) sort_by_lower_boxes(&boxes);
    const double each = (kPictureWidth - 2 * kMargin) / static_cast<double>(boxes.size());
    for (std::size_t i = 0; i < boxes.size(); ++i) {
      Box& box = boxes_[boxes[i]];
      box.x = kMargin + each * (static_cast<double>(i) + 0.5);
      box.y = top + kRowHeight * (static_cast<double>(row) + 0.5);
      box.width = std::min(kWidestBox, each - std::min(kGap, each / 4));
    }
  }

  // Returns a straight path from row to row, or an arc between boxes of one row.
  static std::string path_of(const Box& a, const Box& b) {
    if (a.y != b.y) {
      const Box &upper = a.y < b.y ? a : b, &lower = a.y < b.y ? b : a;
      return fmt::format("M{:.1f} {:.1f}L{:.1f} {:.1f}", upper.x, upper.y + kBoxHeight / 2, lower.x,
                         lower.y - kBoxHeight / 2);
    }
    const double bend = a.y + kBoxHeight / 2 + std::min(34.0, 8 + std::abs(a.x - b.x) / 12);
    return fmt::format("M{:.1f} {:.1f}Q{:.1f} {:.1f} {:.1f} {:.1f}", a.x, a.y + kBoxHeight / 2,
                       (a.x + b.x) / 2, bend, b.x, b.y + kBoxHeight / 2);
  }

  std::vector<Box> boxes_;
  std::vector<std::vector<int>> rows_;             // indices of boxes
  std::map<std::pair<int, int>, Bundle> bundles_;  // by indices of boxes, the smaller one first
};

// Calls f(from, to) with the line's ends, either way round.
template <class F>
void for_both_ends(const ClusterGraph::Line& line, const F& f) {
  f(line.from, line.to);
  f(line.to, line.from);
}

// The fabric: a row of switches for each number of hops from the nodes, most hops on top, and the
// nodes below. If there are many nodes, equal ones (on the same switches, with as many GPUs) share
// a box. A "point" is a switch, GPU or NIC of the graph; a "line" is a link.
class FabricPicture {
 public:
  explicit FabricPicture(const ClusterGraph& graph)
      : graph_(graph),
        hops_(graph.points.size(), -1),
        box_of_(graph.points.size(), -1),
        switches_of_(graph.nodes.size()) {
    find_hops();
    add_switches();
    add_nodes();
    for (const ClusterGraph::Line& line : graph.lines) {
      const int from = box(line.from), to = box(line.to);
      const bool are_drawn = from >= 0 && to >= 0;  // a switch that no node leads to has no box
      if (are_drawn) picture.join(from, to, line.bytes_per_s);
    }
  }

  BoxPicture picture;

 private:
  // Returns -1 for a switch of the fabric.
  int node_of(int point) const { return graph_.points[point].node; }
  int box(int point) const {
    return node_of(point) >= 0 ? box_of_node_[node_of(point)] : box_of_[point];
  }

  // Finds the switches beside each node, which have 0 hops, and searches on from them.
  void find_hops() {
    std::vector<std::vector<int>> neighbours(graph_.points.size());  // switches beside a switch
    std::queue<int> queue;
    for (const ClusterGraph::Line& line : graph_.lines) {
      for_both_ends(line, [&](int from, int to) {
        if (node_of(to) >= 0) return;
        if (node_of(from) < 0) {
          neighbours[from].push_back(to);
        } else {
          switches_of_[node_of(from)].insert(to);
          if (hops_[to] < 0) queue.push(to);
          hops_[to] = 0;
        }
      });
    }
    for (; !queue.empty(); queue.pop()) {
      for (const int next : neighbours[queue.front()]) {
        if (hops_[next] >= 0) continue;
        hops_[next] = hops_[queue.front()] + 1;
        queue.push(next);
      }
    }
  }

  void add_switches() {
    int most = -1;
    for (const int hops : hops_) most = std::max(most, hops);
    node_row_ = most + 1;
    for (std::size_t i = 0; i < graph_.points.size(); ++i) {
      if (hops_[i] < 0) continue;
      const std::string& name = graph_.points[i].name;
      box_of_[i] = picture.add(most - hops_[i], {name, name, "switch"});
    }
  }

  // Returns the nodes that share a box, by box.
  std::vector<std::vector<int>> groups_of_nodes(const std::vector<int>& gpus) const {
    const int nodes = static_cast<int>(graph_.nodes.size());
    std::vector<std::vector<int>> groups;
    if (graph_.nodes.size() <= kMostNodes) {
      for (int node = 0; node < nodes; ++node) groups.push_back({node});
      return groups;
    }
    std::map<std::pair<std::set<int>, int>, std::vector<int>> equal;  // by switches and GPUs
    for (int node = 0; node < nodes; ++node)
      equal[{switches_of_[node], gpus[node]}].push_back(node);
    for (auto& [key, group] : equal) groups.push_back(std::move(group));
    std::ranges::sort(groups);
    return groups;
  }

  void add_nodes() {
    std::vector<int> gpus(graph_.nodes.size());
    for (const ClusterGraph::Point& point : graph_.points) {
      if (point.kind == ClusterGraph::Kind::Gpu) ++gpus[point.node];
    }
    box_of_node_.resize(graph_.nodes.size(), -1);
    for (const std::vector<int>& group : groups_of_nodes(gpus)) {
      std::vector<std::string> names;
      for (const int node : group) names.push_back(graph_.nodes[node]);
      const std::string list = hostlist_of(names);
      const bool is_single = group.size() == 1;
      const std::string label = is_single ? list : fmt::format("{} nodes", group.size());
      const std::string title =
          fmt::format("{}: {} GPUs{}", list, gpus[group.front()], is_single ? "" : " each");
      const int box = picture.add(node_row_, {label, title, "node"});
      for (const int node : group) box_of_node_[node] = box;
    }
  }

  const ClusterGraph& graph_;
  std::vector<int> hops_;  // by point: a switch's hops from the nodes; -1: no switch of the fabric
  std::vector<int> box_of_;  // by point
  std::vector<int> box_of_node_;
  std::vector<std::set<int>> switches_of_;  // by node: the switches that it is joined to
  int node_row_ = 0;
};

// Returns the node's switches from which switches alone lead to a NIC, by adding neighbours until
// none is new.
std::set<int> switches_towards_nics(const ClusterGraph& graph, int node) {
  const auto is_switch = [&](int point) {
    return graph.points[point].kind == ClusterGraph::Kind::Switch &&
           graph.points[point].node == node;
  };
  std::set<int> found;
  std::size_t before = 0;
  do {
    before = found.size();
    for (const ClusterGraph::Line& line : graph.lines) {
      for_both_ends(line, [&](int from, int to) {
        const bool leads =
            graph.points[from].kind == ClusterGraph::Kind::Nic || found.contains(from);
        if (leads && is_switch(to)) found.insert(to);
      });
    }
  } while (found.size() > before);
  return found;
}

// The rows of a node's inside, from the top: switches that join GPUs alone (NVSwitch), GPUs,
// switches towards a NIC (PCIe), CPUs, NICs.
enum InsideRow { kGpuSwitches, kGpus, kNicSwitches, kCpus, kNics };

InsideRow row_of(const ClusterGraph::Point& point, const std::string& label, bool is_towards_nic) {
  if (point.kind == ClusterGraph::Kind::Gpu) return kGpus;
  if (point.kind == ClusterGraph::Kind::Nic) return kNics;
  if (!is_towards_nic) return kGpuSwitches;
  return label.find("cpu") != std::string::npos ? kCpus : kNicSwitches;
}

BoxPicture inside_of_node(const ClusterGraph& graph, int node) {
  std::vector<int> box(graph.points.size(), -1);
  const std::set<int> towards_nics = switches_towards_nics(graph, node);
  BoxPicture picture;
  const std::string prefix = graph.nodes[node] + '.';
  for (std::size_t i = 0; i < graph.points.size(); ++i) {
    const ClusterGraph::Point& point = graph.points[i];
    if (point.node != node) continue;
    const std::string label =
        point.name.starts_with(prefix) ? point.name.substr(prefix.size()) : point.name;
    const InsideRow row = row_of(point, label, towards_nics.contains(static_cast<int>(i)));
    box[i] = picture.add(row, {label, point.name,
                               row == kGpus   ? "gpu"
                               : row == kNics ? "nic"
                                              : "switch"});
  }
  for (const ClusterGraph::Line& line : graph.lines) {
    if (box[line.from] >= 0 && box[line.to] >= 0)
      picture.join(box[line.from], box[line.to], line.bytes_per_s);
  }
  picture.drop_empty_rows();
  return picture;
}

// Styles apply to this picture's class alone, since a page has other pictures.
constexpr const char* kStyle =
    "<style>\n"
    ".cluster-picture text{font:11px system-ui,sans-serif;text-anchor:middle;fill:#1a1a1a}\n"
    ".cluster-picture text.title{font-weight:600;font-size:13px;text-anchor:start}\n"
    ".cluster-picture .switch rect{fill:#dbe7f5;stroke:#3b6ea5}\n"
    ".cluster-picture .node rect,.cluster-picture .gpu rect{fill:#e6f2e1;stroke:#4f8a3d}\n"
    ".cluster-picture .nic rect{fill:#fbeed5;stroke:#b5802a}\n"
    ".cluster-picture path{fill:none;stroke:#5b6470;stroke-opacity:.45}\n"
    ".cluster-picture path:hover{stroke:#c0392b;stroke-opacity:1}\n"
    "</style>\n";

void add_title(const std::string& text, double y, std::string* svg) {
  *svg += fmt::format("<text class=\"title\" x=\"{}\" y=\"{:.1f}\">{}</text>\n", kMargin, y,
                      xml_escaped(text));
}

}  // namespace

std::string cluster_svg(const ClusterGraph& graph, const std::string& title) {
  CHECK(!graph.nodes.empty());
  constexpr double kTitle = 28;
  FabricPicture fabric(graph);
  BoxPicture inside = inside_of_node(graph, 0);
  fabric.picture.place(kTitle);
  const double middle = kTitle + fabric.picture.height();
  inside.place(middle + kTitle);
  const double height = middle + kTitle + inside.height() + kMargin;
  std::string svg = fmt::format(
      "<svg class=\"cluster-picture\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" "
      "height=\"{1:.0f}\" viewBox=\"0 0 {0} {1:.0f}\">\n<title>{2}</title>\n{3}"
      "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
      kPictureWidth, height, xml_escaped(title), kStyle);
  add_title(title, kMargin + 4, &svg);
  fabric.picture.draw(&svg);
  add_title("inside of " + graph.nodes.front(), middle + kMargin + 4, &svg);
  inside.draw(&svg);
  return svg + "</svg>\n";
}

}  // namespace tandem
