// Process: one simulated controller process. All its calls to the outside and all answers pass through here, so it can
// be killed between any two steps, also between an effect and its answer, or be suspended and continue later.

import type { Clock } from '../src/app/ports.ts';

export interface SimulatedProcess {
  readonly name: string;
  readonly isDead: boolean;
  readonly callCount: number;
  readonly wakeups: number;
  /** Dies at that message: before it is sent, or after its effect and before its answer. */
  crashAt(crossing: number, when: 'before' | 'after'): void;
  crash(): void;
  /** Receives nothing until `thaw`. Messages that were sent before still arrive. */
  suspend(): void;
  resume(): void;
  /**
   * The same object, reached through this process. Its methods may be synchronous or return promises. The process never
   * dies at a call that is not counted.
   */
  wrap<T extends object>(port: T, isCounted?: boolean): T;
  clock(real: Clock): Clock;
  readonly dead: Promise<void>;
}

const never = new Promise<never>(() => undefined);

export function createProcess(name: string): SimulatedProcess {
  let isDead = false;
  let isSuspended = false;
  let callCount = 0;
  let wakeups = 0;
  let crashPoint: { readonly at: number; readonly when: 'before' | 'after' } | null = null;
  const waiting: (() => void)[] = [];
  const dead = Promise.withResolvers<void>();

  function crash(): void {
    if (isDead) return;
    isDead = true;
    waiting.length = 0;
    dead.resolve();
  }

  /** Runs `call` now, later if the process is suspended, never if it is dead. */
  function deliver(call: () => void): void {
    if (isDead) return;
    if (isSuspended) waiting.push(call);
    else call();
  }

  function passCall(call: () => unknown, isCounted: boolean): unknown {
    if (isDead) return never;
    if (isCounted) callCount += 1;
    const isLast = isCounted && crashPoint?.at === callCount;
    if (isLast && crashPoint?.when === 'before') {
      crash();
      return never;
    }
    const answer = call();
    if (isLast) {
      if (answer instanceof Promise) answer.catch(() => undefined);
      crash();
      return never;
    }
    if (!(answer instanceof Promise)) return answer;
    return new Promise((resolve, reject) => {
      answer.then(
        (value) => deliver(() => resolve(value)),
        (error: unknown) => deliver(() => reject(error as Error)),
      );
    });
  }

  /** Callbacks that are passed out (a receiver of log bytes) also belong to this process. */
  function wrapCallbacks(value: unknown): unknown {
    if (typeof value === 'function') {
      return (...given: unknown[]) => {
        if (isDead) return never;
        if (!isSuspended) return (value as (...args: unknown[]) => unknown)(...given);
        return new Promise((resolve) => {
          waiting.push(() => resolve((value as (...args: unknown[]) => unknown)(...given)));
        });
      };
    }
    if (isReceiver(value)) {
      return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, wrapCallbacks(member)]));
    }
    return value;
  }

  return {
    name,
    get isDead() {
      return isDead;
    },
    get callCount() {
      return callCount;
    },
    get wakeups() {
      return wakeups;
    },
    crashAt(call, when) {
      crashPoint = { at: call, when };
    },
    crash,
    suspend() {
      isSuspended = true;
    },
    resume() {
      isSuspended = false;
      for (const call of waiting.splice(0)) deliver(call);
    },
    wrap<T extends object>(port: T, isCounted = true): T {
      return new Proxy(port, {
        get(target, key) {
          const member: unknown = Reflect.get(target, key);
          if (typeof member !== 'function') return member;
          return (...given: unknown[]) =>
            passCall(() => Reflect.apply(member, target, given.map(wrapCallbacks)) as unknown, isCounted);
        },
      });
    },
    clock: (real) => ({
      now: () => real.now(),
      at(at, call) {
        return real.at(at, () =>
          deliver(() => {
            wakeups += 1;
            call();
          }),
        );
      },
    }),
    dead: dead.promise,
  };
}

function isReceiver(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && 'bytes' in value && 'dropped' in value;
}
