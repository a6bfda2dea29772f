// The common work of tests/bench/compare_simgrid.py on SimGrid, by its C++ interface.
//
//     simgrid_work ring|attention|flood|rounds switch|two_level RANKS     prints simulated microseconds
//
// Few actors, each with a chain of blocking sends: an actor a flow would cost SimGrid more than it need.
//
//     g++ -std=c++17 -O2 simgrid.cpp -lsimgrid
#include <simgrid/s4u.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace sg4 = simgrid::s4u;

static const double NIC = 50e9, NVLINK = 450e9, MIB = 1048576, ATTEND = 100e-6, FLOPS = 1e9;
// The last two are called precision/timing and precision/work-amount from SimGrid 4 on. They matter: at its own
// precision SimGrid lets rounds on 64 ranks of two levels end at 4193.7 us, not at 4202.0.
static const char* OPTIONS[] = {"network/model:CM02",    "network/bandwidth-factor:1", "network/latency-factor:1",
                                "network/TCP-gamma:0",   "network/weight-S:0",         "network/crosstraffic:0",
                                "surf/precision:1e-14",  "maxmin/precision:1e-9"};

static std::vector<sg4::Host*> far, near; // of each rank: by its NIC, and inside its machine
static bool two_level = false;

static std::vector<sg4::Host*> star(sg4::NetZone* zone, const std::string& name, int first, int count, double width,
                                    double latency)
{
  std::vector<sg4::Host*> hosts;
  for (int k = 0; k < count; k++) {
    std::string id = name + std::to_string(first + k);
    auto* host     = zone->create_host(id, FLOPS)->seal();
    auto* link     = zone->create_split_duplex_link("link" + id, width)->set_latency(latency)->seal();
    zone->add_route(host->get_netpoint(), nullptr, nullptr, nullptr, {{link, sg4::LinkInRoute::Direction::UP}}, true);
    hosts.push_back(host);
  }
  zone->seal();
  return hosts;
}

static void build(int ranks)
{
  auto* root = sg4::create_full_zone("root");
  auto* fabric = sg4::create_star_zone("fabric")->set_parent(root);
  far = star(fabric, "far", 0, ranks, NIC, two_level ? 1e-6 : 0.5e-6);
  for (int first = 0; two_level && first < ranks; first += 8) {
    auto* machine = sg4::create_star_zone("machine" + std::to_string(first))->set_parent(root);
    for (auto* host : star(machine, "near", first, 8, NVLINK, 0.25e-6))
      near.push_back(host);
  }
  root->seal();
}

static bool is_inside(int from, int to) { return two_level && from / 8 == to / 8; }
static sg4::Host* source(int from, int to) { return is_inside(from, to) ? near[from] : far[from]; }
static sg4::Host* target(int from, int to) { return is_inside(from, to) ? near[to] : far[to]; }

static void send(int from, int to, double bytes)
{
  sg4::Comm::sendto(source(from, to), target(from, to), (uint64_t)bytes);
}

// Ring all-gather: a shard goes around, and on as soon as it is there.
static void ring(int shard, int ranks)
{
  for (int hop = 0; hop < ranks - 1; hop++)
    send((shard + hop) % ranks, (shard + hop + 1) % ranks, 64 * MIB / ranks);
}

// All-to-all in shifted rounds: the next when the own send has ended.
static void rounds(int rank, int ranks)
{
  for (int shift = 1; shift < ranks; shift++)
    send(rank, (rank + shift) % ranks, MIB);
}

// All-to-all at once.
static void flood(int rank, int ranks)
{
  std::vector<sg4::CommPtr> flows;
  for (int shift = 1; shift < ranks; shift++) {
    int to = (rank + shift) % ranks;
    flows.push_back(sg4::Comm::sendto_async(source(rank, to), target(rank, to), (uint64_t)MIB));
  }
  sg4::Comm::wait_all(flows);
}

// Ring attention: passes blocks on and computes on them, each in order. What is there: a semaphore for each of the two.
static std::vector<sg4::SemaphorePtr> to_send, to_compute;

static void pass_blocks(int rank, int ranks)
{
  int next = (rank + 1) % ranks;
  for (int step = 0; step < ranks - 1; step++) {
    to_send[rank]->acquire();
    send(rank, next, 8 * MIB);
    to_send[next]->release();
    to_compute[next]->release();
  }
}

static void compute_blocks(int rank, int ranks)
{
  for (int step = 0; step < ranks; step++) {
    to_compute[rank]->acquire();
    sg4::this_actor::execute(ATTEND * FLOPS);
  }
}

static void attention(int rank, int ranks)
{
  sg4::Actor::create("compute", far[rank], compute_blocks, rank, ranks);
  pass_blocks(rank, ranks);
}

int main(int argc, char** argv)
{
  sg4::Engine engine(&argc, argv);
  for (const char* option : OPTIONS)
    sg4::Engine::set_config(option);
  std::string name = argv[1];
  two_level        = std::string(argv[2]) == "two_level";
  int ranks        = std::atoi(argv[3]);
  build(ranks);
  for (int rank = 0; rank < ranks; rank++) {
    to_send.push_back(sg4::Semaphore::create(1));
    to_compute.push_back(sg4::Semaphore::create(1));
  }
  auto* work = name == "ring" ? ring : name == "attention" ? attention : name == "flood" ? flood : rounds;
  for (int rank = 0; rank < ranks; rank++)
    sg4::Actor::create("rank", far[rank], work, rank, ranks);
  engine.run();
  std::printf("%.6f\n", sg4::Engine::get_clock() * 1e6);
}
