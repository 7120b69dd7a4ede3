// How kernels get more than one thread: they declare tiles, the owner of the thread pool (engine) runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

namespace mantissa::kernels {

/// A reference to a callable that outlives the call; no allocation. Thread: as the callable.
template <class Signature>
class FunctionRef;
template <class R, class... Args>
class FunctionRef<R(Args...)> {
  public:
    template <class F, class = std::enable_if_t<!std::is_same_v<std::remove_cvref_t<F>, FunctionRef>>>
    FunctionRef(F&& f)
        : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))), call_([](void* o, Args... args) -> R {
              return (*static_cast<std::remove_reference_t<F>*>(o))(std::forward<Args>(args)...);
          }) {}
    R operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

  private:
    void* object_;
    R (*call_)(void*, Args...);
};

/// Runs independent tiles. Which thread runs which tile is undefined, so results must not depend on it: a tile writes only what is
/// its own, and partial sums are kept per tile (not per worker) and added in tile order afterwards.
class Executor {
  public:
    virtual ~Executor() = default;
    /// Number of workers, the caller included; `worker` below is in [0, threadCount()).
    virtual int threadCount() const = 0;
    /// Calls body(tile, worker) once for every tile in [0, tiles) and returns when all are done. An exception thrown by a tile is
    /// rethrown here, once. Aim for tiles of at most 1 ms, and at least 8 a call. Thread: one caller at a time.
    virtual void run(int64_t tiles, FunctionRef<void(int64_t tile, int worker)> body) = 0;
};

/// Runs every tile on the calling thread.
class SerialExecutor final : public Executor {
  public:
    int threadCount() const override { return 1; }
    void run(int64_t tiles, FunctionRef<void(int64_t, int)> body) override {
        for (int64_t tile = 0; tile < tiles; ++tile) body(tile, 0);
    }
};

}  // namespace mantissa::kernels
