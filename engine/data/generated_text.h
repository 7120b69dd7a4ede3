// A corpus made as it is read: a Markov source over the vocabulary whose entropy rate is known, so that a loss has a
// floor to reach.
#pragma once

#include <cstdint>
#include <vector>

namespace mantissa::engine {

/// First-order source. After token s comes, with probability 0.8, one of eight followers of s (the k-th with weight 1 /
/// (k + 1)), else a token drawn from a skewed distribution common to all; followers are skewed towards low ids as well.
/// The source depends on the vocabulary alone; seeds choose the windows. Memory: 36 bytes a token of the vocabulary.
class MarkovSource {
  public:
    /// vocabulary >= 2. Computes the stationary distribution (to 1e-12) and the entropy rate.
    explicit MarkovSource(int vocabulary);

    /// `length` tokens of the sequence (seed, index): the first from the stationary distribution, each next one from
    /// its predecessor.
    void generate(uint64_t seed, uint64_t index, int length, int32_t* out) const;
    /// Entropy of the next token given the one before, in nats: sum over s of pi(s) H(next | s). The best mean loss
    /// there is.
    double entropyRate() const { return entropyRate_; }
    /// Probability of `next` after `token`; rows sum to 1.
    double probability(int token, int next) const;
    uint64_t bytesInMemory() const;

  private:
    void solve();
    int vocabulary_;
    std::vector<uint32_t> followers_;   ///< (vocabulary, 8)
    std::vector<double> common_;        ///< (vocabulary) probability of the common distribution
    std::vector<uint32_t> cumulative_;  ///< (vocabulary) stationary distribution, cumulative, in 2^-32
    double entropyRate_ = 0;
};

}  // namespace mantissa::engine
