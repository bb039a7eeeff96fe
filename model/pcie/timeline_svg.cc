// SPDX-License-Identifier: Apache-2.0

#include "model/pcie/timeline_svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace penstock::model {
namespace {

constexpr std::size_t kRowsMax = 16;
constexpr std::size_t kCurvesMax = 16;
constexpr double kLeft = 210;
constexpr double kWidth = 700;
constexpr double kTop = 50;
constexpr double kCurvesHeight = 180;
constexpr double kRowHeight = 20;
constexpr double kNameHeight = kCurvesHeight / kCurvesMax;
constexpr double kRight = 160;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char letter : text) {
    switch (letter) {
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '&': out += "&amp;"; break;
      case '"': out += "&quot;"; break;
      default: out += static_cast<unsigned char>(letter) < 0x20 ? ' ' : letter;
    }
  }
  return out;
}

class Picture {
 public:
  Picture(const Network& network, const Outcome& outcome) : network_(network), outcome_(outcome) {
    const double bins = outcome.seconds / outcome.station_busy.bin_seconds();
    bins_ = std::clamp<std::size_t>(static_cast<std::size_t>(bins) + 1, 1, Timeline::kBins);
    stream_bins_ = std::clamp<std::size_t>(
        static_cast<std::size_t>(outcome.seconds / outcome.stream_bytes.bin_seconds()) + 1, 1, Timeline::kBins);
  }

  std::string draw(const std::string& title) {
    const std::vector<std::size_t> rows = busiest();
    const double rows_top = kTop + kCurvesHeight + 40;
    const double height = rows_top + static_cast<double>(rows.size()) * kRowHeight + 40;
    out_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {:.0f} {:.0f}\" font-family=\"sans-serif\" "
        "shape-rendering=\"crispEdges\" "
        "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        kLeft + kWidth + kRight, height);
    text(10, 22,
         fmt::format("{}: {:.1f} GB/s over {:.4g} s", title, outcome_.bytes_per_second / kGiga, outcome_.seconds));
    curves();
    for (std::size_t i = 0; i < rows.size(); ++i) row(rows[i], rows_top + static_cast<double>(i) * kRowHeight);
    text(kLeft, height - 12, "0");
    text(kLeft + kWidth - 40, height - 12, fmt::format("{:.4g} s", outcome_.seconds));
    return out_ + "</svg>\n";
  }

 private:
  void text(double x, double y, const std::string& words) {
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", x, y, escaped(words));
  }

  std::vector<std::size_t> busiest() const {
    std::vector<std::size_t> order(network_.stations.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      return outcome_.stations[a].utilisation > outcome_.stations[b].utilisation;
    });
    if (order.size() > kRowsMax) order.resize(kRowsMax);
    return order;
  }

  // The last bin is covered in part.
  double bin_span(const Timeline& timeline, std::size_t bin) const {
    const double begin = static_cast<double>(bin) * timeline.bin_seconds();
    return std::min(timeline.bin_seconds(), std::max(outcome_.seconds - begin, 1e-12));
  }

  double x_of(double seconds) const {
    return kLeft + kWidth * std::min(1.0, outcome_.seconds > 0 ? seconds / outcome_.seconds : 0);
  }

  void curves() {
    double most = 1;
    for (std::size_t stream = 0; stream < outcome_.streams.size(); ++stream) {
      for (std::size_t bin = 0; bin < stream_bins_; ++bin) most = std::max(most, rate(stream, bin));
    }
    text(10, kTop + 12, "streams");
    text(kLeft - 75, kTop + 10, fmt::format("{:.1f} GB/s", most / kGiga));
    text(kLeft - 15, kTop + kCurvesHeight, "0");
    out_ += fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#999\"/>\n", kLeft,
                        kTop, kWidth, kCurvesHeight);
    for (std::size_t stream = 0; stream < std::min(outcome_.streams.size(), kCurvesMax); ++stream) curve(stream, most);
  }

  double rate(std::size_t stream, std::size_t bin) const {
    return outcome_.stream_bytes.at(stream, bin) / bin_span(outcome_.stream_bytes, bin);
  }

  void curve(std::size_t stream, double most) {
    const std::string colour = fmt::format("hsl({},65%,42%)", stream * 360 / kCurvesMax);
    out_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" font-size=\"10\" fill=\"{}\">{}</text>\n", kLeft + kWidth + 8,
                        kTop + kNameHeight * (static_cast<double>(stream) + 0.8), colour,
                        escaped(outcome_.streams[stream].name));
    out_ += fmt::format("<polyline fill=\"none\" stroke=\"{}\" points=\"", colour);
    for (std::size_t bin = 0; bin < stream_bins_; ++bin) {
      const double x = x_of((static_cast<double>(bin) + 0.5) * outcome_.stream_bytes.bin_seconds());
      out_ += fmt::format("{:.1f},{:.1f} ", x, kTop + kCurvesHeight * (1 - rate(stream, bin) / most));
    }
    out_ += fmt::format("\"><title>{}</title></polyline>\n", escaped(outcome_.streams[stream].name));
  }

  void row(std::size_t station, double y) {
    text(10, y + 14, network_.stations[station].name);
    text(kLeft + kWidth + 8, y + 14, fmt::format("{:.0f} %", 100 * outcome_.stations[station].utilisation));
    for (std::size_t bin = 0; bin < bins_; ++bin) {
      const Timeline& busy = outcome_.station_busy;
      const double share = std::clamp(busy.at(station, bin) / bin_span(busy, bin), 0.0, 1.0);
      const double begin = x_of(static_cast<double>(bin) * busy.bin_seconds());
      const double end = x_of(static_cast<double>(bin + 1) * busy.bin_seconds());
      out_ += fmt::format(
          "<rect x=\"{:.2f}\" y=\"{:.1f}\" width=\"{:.2f}\" height=\"{:.0f}\" fill=\"hsl(215,70%,{:.0f}%)\"/>\n", begin,
          y, end - begin, kRowHeight - 3, 97 - 60 * share);
    }
  }

  const Network& network_;
  const Outcome& outcome_;
  std::size_t bins_ = 1;
  std::size_t stream_bins_ = 1;
  std::string out_;
};

}  // namespace

std::string timeline_svg(const Network& network, const Outcome& outcome, const std::string& title) {
  return Picture(network, outcome).draw(title);
}

}  // namespace penstock::model
