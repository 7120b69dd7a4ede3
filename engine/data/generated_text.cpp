#include "engine/data/generated_text.h"

#include <algorithm>
#include <cmath>

#include "kernels/simd/philox.h"

namespace mantissa::engine {
namespace {

constexpr int kFollowers = 8;
constexpr double kCommonShare = 0.2;
constexpr uint64_t kSourceKey = 0x4D61726B6F763031u;  // fixed: the source is the same for every seed
constexpr uint64_t kTextStream = 0x6765746578740000u;

/// Common draw: floor(V r^2) for r uniform in 2^-32 steps, so P(id < j) = sqrt(j / V): low ids are frequent.
uint32_t skewed(uint32_t random, int vocabulary) {
    const uint64_t square = (static_cast<uint64_t>(random) * random) >> 32;
    return static_cast<uint32_t>((square * static_cast<uint64_t>(vocabulary)) >> 32);
}

/// Weights 1 / (k + 1), normalised.
const double* followerWeights() {
    static const auto weights = [] {
        std::vector<double> w(kFollowers);
        double sum = 0;
        for (int k = 0; k < kFollowers; ++k) sum += w[k] = 1.0 / (k + 1);
        for (double& weight : w) weight /= sum;
        return w;
    }();
    return weights.data();
}

double entropyTerm(double p) {
    return p > 0 ? -p * std::log(p) : 0;
}

}  // namespace

MarkovSource::MarkovSource(int vocabulary) : vocabulary_(vocabulary) {
    const size_t size = static_cast<size_t>(vocabulary);
    followers_.resize(size * kFollowers);
    for (size_t i = 0; i < followers_.size(); ++i)
        followers_[i] = skewed(kernels::philoxBlock(kSourceKey, i / 4, 0).value[i % 4], vocabulary);
    common_.resize(size);
    for (size_t i = 0; i < size; ++i)
        common_[i] =
            std::sqrt(static_cast<double>(i + 1) / vocabulary) - std::sqrt(static_cast<double>(i) / vocabulary);
    solve();
}

void MarkovSource::solve() {
    const size_t size = static_cast<size_t>(vocabulary_);
    const double* weights = followerWeights();
    std::vector<double> now = common_, next(size);
    for (int iteration = 0; iteration < 200; ++iteration) {
        for (size_t i = 0; i < size; ++i) next[i] = kCommonShare * common_[i];
        for (size_t s = 0; s < size; ++s)
            for (int k = 0; k < kFollowers; ++k)
                next[followers_[s * kFollowers + k]] += (1 - kCommonShare) * now[s] * weights[k];
        double change = 0;
        for (size_t i = 0; i < size; ++i) change += std::fabs(next[i] - now[i]);
        now.swap(next);
        if (change < 1e-12) break;
    }
    double commonEntropy = 0;
    for (double p : common_) commonEntropy += entropyTerm(kCommonShare * p);
    for (size_t s = 0; s < size; ++s) {
        double entropy = commonEntropy;
        for (int k = 0; k < kFollowers; ++k) {
            const uint32_t token = followers_[s * kFollowers + k];
            const uint32_t* first = followers_.data() + s * kFollowers;
            if (std::find(first, first + k, token) != first + k) continue;  // counted with its first place
            entropy += entropyTerm(probability(static_cast<int>(s), static_cast<int>(token))) -
                       entropyTerm(kCommonShare * common_[token]);
        }
        entropyRate_ += now[s] * entropy;
    }
    cumulative_.resize(size);
    double sum = 0;
    for (size_t i = 0; i < size; ++i) {
        sum += now[i];
        cumulative_[i] = static_cast<uint32_t>(std::min(sum * 4294967296.0, 4294967295.0));
    }
    cumulative_.back() = 0xFFFFFFFFu;
}

double MarkovSource::probability(int token, int next) const {
    double p = kCommonShare * common_[next];
    for (int k = 0; k < kFollowers; ++k)
        if (followers_[static_cast<size_t>(token) * kFollowers + k] == static_cast<uint32_t>(next))
            p += (1 - kCommonShare) * followerWeights()[k];
    return p;
}

void MarkovSource::generate(uint64_t seed, uint64_t index, int length, int32_t* out) const {
    const double* weights = followerWeights();
    uint32_t limits[kFollowers];  // cumulative, in 2^-32
    double sum = 0;
    for (int k = 0; k < kFollowers; ++k) {
        sum += (1 - kCommonShare) * weights[k];
        limits[k] = static_cast<uint32_t>(sum * 4294967296.0);
    }
    uint32_t token = 0;
    for (int i = 0; i < length; ++i) {
        const kernels::Philox4 random = kernels::philox4x32(
            {{static_cast<uint32_t>(i), static_cast<uint32_t>(index), static_cast<uint32_t>(index >> 32), 0x74657874u}},
            seed ^ kTextStream);
        if (i == 0) {
            token = static_cast<uint32_t>(std::lower_bound(cumulative_.begin(), cumulative_.end(), random.value[0]) -
                                          cumulative_.begin());
        } else if (random.value[0] >= limits[kFollowers - 1]) {
            token = skewed(random.value[1], vocabulary_);
        } else {
            const auto k = std::upper_bound(limits, limits + kFollowers, random.value[0]) - limits;
            token = followers_[static_cast<size_t>(token) * kFollowers + static_cast<size_t>(k)];
        }
        out[i] = static_cast<int32_t>(token);
    }
}

uint64_t MarkovSource::bytesInMemory() const {
    return followers_.size() * sizeof(uint32_t) + common_.size() * sizeof(double) +
           cumulative_.size() * sizeof(uint32_t);
}

}  // namespace mantissa::engine
