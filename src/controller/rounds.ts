// Rounds: one timer for everything that comes with time: due jobs, the lease, the sweep, the idle exit.

import { second } from '../core/time.ts';
import type { Instant } from '../core/time.ts';
import { backoff } from './bounded.ts';
import type { Beside, ControllerOptions } from './controller.ts';
import { leasePace } from './lease.ts';
import { textOf } from './looks.ts';
import type { Parts } from './parts.ts';

export interface Rounds {
  /** The next round comes when the first thing is due. Safe to repeat. */
  arm(): void;
  /** The first round is now. */
  begin(): Promise<void>;
  stop(): void;
}

export function createRounds(
  { clock, log, onRenewal }: Pick<ControllerOptions, 'clock' | 'log' | 'onRenewal'>,
  { lease, schedule, watch, sweeper, queue, due, idle }: Parts,
  hooks: {
    readonly isRunning: () => boolean;
    readonly beside: () => Beside | undefined;
    readonly leaseLost: () => void;
    readonly leaveIfIdle: () => Promise<void>;
  },
): Rounds {
  const { isRunning, leaveIfIdle } = hooks;
  let callOff: () => void = () => undefined;
  let inRound = false;
  let renewAt: Instant = 0;
  let renewFailures = 0;
  /** The clock went back and the jobs in the store have not all been observed since. */
  let isSetBack = false;

  function arm(): void {
    if (!isRunning() || inRound) return;
    callOff();
    // Never further than the lease is renewed anyway: a clock that was set back since these times were worked out would
    // make them lie as far ahead as it went back, and only a round notices that.
    const at = Math.min(renewAt, sweeper.dueAt, schedule.first, idle.exitAt, clock.now() + leasePace);
    callOff = clock.at(at, () => void round());
  }

  async function round(): Promise<void> {
    if (!isRunning()) return;
    inRound = true;
    const now = clock.now();
    if (watch.tick(now)) {
      renewAt = now;
      idle.reset();
      sweeper.now();
      schedule.makeAllDue(now);
      isSetBack = true;
    }
    if (now >= renewAt) await keepLease();
    if (!isRunning()) return;
    for (const id of schedule.takeDue(now)) queue.add(id);
    if (clock.now() >= sweeper.dueAt) void sweeper.sweep().then(leaveIfIdle).finally(arm);
    inRound = false;
    await leaveIfIdle();
    arm();
  }

  async function keepLease(): Promise<void> {
    try {
      renewAt = clock.now() + leasePace;
      if (!(await lease.renew())) {
        hooks.leaseLost();
        return;
      }
      renewFailures = 0;
      onRenewal?.();
      hooks.beside()?.look();
      // Also the net under lost wakes: jobs that the commit of a client made due.
      await (isSetBack ? due.queueAll() : due.queueDue());
      isSetBack = false;
    } catch (error) {
      if (renewFailures === 0) log.warn(`the record of jobs cannot be used, nothing is done: ${textOf(error)}`);
      renewAt = clock.now() + backoff(renewFailures, second, leasePace);
      renewFailures += 1;
    }
  }

  return {
    arm,
    begin() {
      renewAt = clock.now();
      return round();
    },
    stop: () => callOff(),
  };
}
