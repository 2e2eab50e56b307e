// Workqueue: which jobs are to be looked at, one pass per job at a time, a bounded number at once.
// It is level-triggered: an entry says "look at this job", never why. A job that is added while its pass runs is looked
// at once more afterwards, because that pass may have looked before the thing happened.

export interface Workqueue {
  /** Asks for a pass of that job. Several calls before the pass begins are one. */
  add(id: string): void;
  /** True while that job waits or is worked on. */
  has(id: string): boolean;
  /** How many jobs wait or are being worked on. */
  readonly size: number;
  /** Begins nothing more; what runs goes on. */
  stop(): void;
  /** Resolves when nothing runs. */
  settled(): Promise<void>;
}

/** Calls `work`, which must not throw, for each added job: at most `most` at once, never two for one job. */
export function createWorkqueue(options: {
  readonly most: number;
  readonly work: (id: string) => Promise<void>;
  readonly quiet: () => void;
}): Workqueue {
  const waiting = new Set<string>();
  const running = new Set<string>();
  const again = new Set<string>();
  const listeners: (() => void)[] = [];
  let stopped = false;

  async function run(id: string): Promise<void> {
    try {
      await options.work(id);
    } finally {
      running.delete(id);
      if (again.delete(id) && !stopped) waiting.add(id);
      next();
      if (running.size === 0) for (const listener of listeners.splice(0)) listener();
      if (running.size === 0 && waiting.size === 0 && !stopped) options.quiet();
    }
  }

  function next(): void {
    for (const id of waiting) {
      if (stopped || running.size >= options.most) return;
      waiting.delete(id);
      running.add(id);
      void run(id);
    }
  }

  return {
    add(id) {
      if (stopped) return;
      if (running.has(id)) again.add(id);
      else waiting.add(id);
      next();
    },
    has(id) {
      return waiting.has(id) || running.has(id);
    },
    get size() {
      return waiting.size + running.size;
    },
    stop() {
      stopped = true;
      waiting.clear();
      again.clear();
    },
    settled() {
      if (running.size === 0) return Promise.resolve();
      return new Promise((resolve) => listeners.push(resolve));
    },
  };
}
