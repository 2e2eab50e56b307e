// Incarnation: one life of a controller process. Everything it says to the outside, and everything it hears, passes
// through here, so it can be killed between any two steps (also between an effect and the news of it), or be suspended
// and go on later as if nothing had happened.

import type { Clock } from '../src/app/ports.ts';

export interface Incarnation {
  readonly name: string;
  readonly isDead: boolean;
  readonly crossings: number;
  readonly wakeups: number;
  /** Dies at that message: before it is sent, or after it had its effect and before its answer is heard. */
  dieAt(crossing: number, when: 'before' | 'after'): void;
  die(): void;
  /** Hears and does nothing until `thaw`. What was sent is on its way. */
  freeze(): void;
  thaw(): void;
  /** The same object, reached through this life. Methods that answer with promises, and plain ones, both pass. */
  through<T extends object>(port: T): T;
  clock(real: Clock): Clock;
  readonly dead: Promise<void>;
}

const never = new Promise<never>(() => undefined);

export function createIncarnation(name: string): Incarnation {
  let isDead = false;
  let isFrozen = false;
  let crossings = 0;
  let wakeups = 0;
  let fate: { readonly at: number; readonly when: 'before' | 'after' } | null = null;
  const waiting: (() => void)[] = [];
  const dead = Promise.withResolvers<void>();

  function die(): void {
    if (isDead) return;
    isDead = true;
    waiting.length = 0;
    dead.resolve();
  }

  /** Runs `call` now, later when it is suspended, never when it is dead. */
  function hear(call: () => void): void {
    if (isDead) return;
    if (isFrozen) waiting.push(call);
    else call();
  }

  function cross(call: () => unknown): unknown {
    if (isDead) return never;
    crossings += 1;
    const isLast = fate?.at === crossings;
    if (isLast && fate?.when === 'before') {
      die();
      return never;
    }
    const answer = call();
    if (isLast) {
      if (answer instanceof Promise) answer.catch(() => undefined);
      die();
      return never;
    }
    if (!(answer instanceof Promise)) return answer;
    return new Promise((resolve, reject) => {
      answer.then(
        (value) => hear(() => resolve(value)),
        (error: unknown) => hear(() => reject(error as Error)),
      );
    });
  }

  /** Functions handed out (a receiver of log bytes) are heard through this life as well. */
  function inward(value: unknown): unknown {
    if (typeof value === 'function') {
      return (...given: unknown[]) => {
        if (isDead) return never;
        if (!isFrozen) return (value as (...args: unknown[]) => unknown)(...given);
        return new Promise((resolve) => {
          waiting.push(() => resolve((value as (...args: unknown[]) => unknown)(...given)));
        });
      };
    }
    if (isReceiver(value)) {
      return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, inward(member)]));
    }
    return value;
  }

  return {
    name,
    get isDead() {
      return isDead;
    },
    get crossings() {
      return crossings;
    },
    get wakeups() {
      return wakeups;
    },
    dieAt(crossing, when) {
      fate = { at: crossing, when };
    },
    die,
    freeze() {
      isFrozen = true;
    },
    thaw() {
      isFrozen = false;
      for (const call of waiting.splice(0)) hear(call);
    },
    through<T extends object>(port: T): T {
      return new Proxy(port, {
        get(target, key) {
          const member: unknown = Reflect.get(target, key);
          if (typeof member !== 'function') return member;
          return (...given: unknown[]) => cross(() => Reflect.apply(member, target, given.map(inward)) as unknown);
        },
      });
    },
    clock: (real) => ({
      now: () => real.now(),
      at(at, call) {
        return real.at(at, () =>
          hear(() => {
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
