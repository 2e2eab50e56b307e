// The events of a job that are reported, and their facts.

import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { clusterNotices, noticesOf, orphanNotice } from '../../../src/app/notifications/notice.ts';
import type { ArchivedJob } from '../../../src/app/cluster/objects.ts';
import type { Event } from '../../../src/core/model/event.ts';
import { hour, minute } from '../../../src/core/model/time.ts';
import { local, spec, tpu, tpuWithAlternatives, World } from '../../core/world.ts';
import { aClusterJob, aClusterPod, aCondition, anArchivedJob, noon } from '../../support/cluster-builders.ts';
import { anOrphan } from '../../support/builders.ts';

/** The notices of all passes of a job's life, and how many `waiting` ones are withdrawn. */
function noticesIn(world: World, life: (world: World) => void) {
  const found: { event: string; message: string; attempt: number | null; location: string | null }[] = [];
  world.onPass = (_before, _observation, { job, events }) => {
    const { notices, endsWaiting } = noticesOf(job, events);
    if (endsWaiting) found.splice(0, found.length, ...found.filter(({ event }) => event !== 'waiting'));
    found.push(...notices);
  };
  life(world);
  return found;
}

suite('a job', () => {
  test('starts, is preempted, recovers and succeeds', () => {
    const notices = noticesIn(new World(spec({ capacity: { ...tpu, pricing: 'spot' }, preset: 'pre' })), (world) => {
      world.runUntilIdle();
      world.node.state = 'lost';
      world.node.cause = 'preempted';
      world.now += minute;
      world.runUntilIdle();
      world.now += hour;
      world.runUntilIdle();
      for (const { runs } of world.node.workers) for (const run of runs) run.ended = { exitCode: 0, at: world.now };
      world.runUntilIdle();
    });
    assert.deepEqual(
      notices.map(({ event, attempt }) => `${event} ${attempt}`),
      ['started 1', 'preempted 1', 'recovered 2', 'succeeded 2'],
    );
    assert.match(notices[1]?.message ?? '', /preempted/);
    assert.match(notices[3]?.message ?? '', /^ran for \d\S+ in 2 attempts$/);
  });

  test('that fails is reported with the cause', () => {
    const notices = noticesIn(new World(spec({ capacity: local })), (world) => {
      world.runUntilIdle();
      for (const { runs } of world.node.workers) for (const run of runs) run.ended = { exitCode: 3, at: world.now };
      world.now += hour;
      world.runUntilIdle();
    });
    assert.deepEqual(
      notices.map(({ event }) => event),
      ['started', 'failed'],
    );
    assert.match(notices[1]?.message ?? '', /exit code 3/);
  });

  test('that gets no capacity waits, once for each attempt, with the capacity that it waits for', () => {
    const notices = noticesIn(new World(spec({ capacity: tpuWithAlternatives })), (world) => {
      const error = { kind: 'stockout', message: 'no capacity', raw: '' } as const;
      world.refusal = { kind: 'failed', evidence: { message: error.message }, error };
      for (let times = 0; times < 5; times += 1) {
        world.pass();
        world.performActions();
        world.now += minute;
      }
    });
    assert.deepEqual(
      notices.map(({ event }) => event),
      ['waiting'],
    );
    assert.match(notices[0]?.message ?? '', /^attempt 1 has waited for .* since 20\d\d-/);
  });

  test('that is stopped by its owner is reported as stopped', () => {
    const notices = noticesIn(new World(spec({ capacity: local })), (world) => {
      world.runUntilIdle();
      world.command('cancel');
      world.runUntilIdle();
    });
    assert.deepEqual(
      notices.map(({ event }) => event),
      ['started', 'stopped'],
    );
  });

  test('with a budget is reported when most of it is used, and when all of it is, also by a kept TPU', () => {
    const { job } = new World(spec({ capacity: tpu }));
    const eventsOf = (event: Event): readonly string[] => noticesOf(job, [event]).notices.map((notice) => notice.event);
    assert.deepEqual(eventsOf({ kind: 'budget_warning', at: noon, spentUsd: 41, budgetUsd: 50 }), ['budget_warning']);
    const evidence = { message: 'all of it is used' };
    assert.deepEqual(eventsOf({ kind: 'attempt_ending', at: noon, attempt: 1, reason: 'budget', evidence }), [
      'budget_used',
    ]);
    const released = { kind: 'allocation_released', at: noon, allocation: 1, message: 'all of it is used' } as const;
    assert.deepEqual(eventsOf({ ...released, budget: { spentUsd: 50, budgetUsd: 50 } }), ['budget_released']);
    assert.deepEqual(eventsOf(released), []);
  });

  test('carries the choice of its manifest', () => {
    const choice = { on: ['failed' as const], to: ['mail:ada@example.com'] };
    const world = new World({ ...spec({ capacity: local }), notify: choice });
    let first;
    world.onPass = (_before, _observation, { job, events }) => {
      first ??= noticesOf(job, events).notices[0];
    };
    world.runUntilIdle();
    assert.deepEqual((first as unknown as { notify: unknown }).notify, choice);
  });
});

suite('a job of a cluster', () => {
  const at = (
    changes: Parameters<typeof aClusterJob>[0],
    pods: ArchivedJob['pods'] = [],
    goneAt: number | null = null,
  ) => anArchivedJob({ job: aClusterJob(changes), pods, goneAt });
  const events = (before: ArchivedJob | undefined, after: ArchivedJob) =>
    clusterNotices(before, after, noon + hour).notices.map(({ event }) => event);
  const queued = at({});
  const running = at({ active: 1, ready: 1, startedAt: noon });
  const complete = at({ conditions: [aCondition('Complete')], startedAt: noon, endedAt: noon + hour });
  const failed = at({ conditions: [aCondition('Failed')], failed: 1 });

  test('is reported when its phase changes', () => {
    assert.deepEqual(events(undefined, queued), ['waiting']);
    assert.deepEqual(events(queued, queued), []);
    assert.deepEqual(events(queued, running), ['started']);
    assert.deepEqual(events(running, running), []);
    assert.deepEqual(events(running, complete), ['succeeded']);
    assert.deepEqual(events(queued, failed), ['failed']);
    assert.deepEqual(events(at({ failed: 1 }), at({ failed: 1, ready: 1 })), ['recovered']);
    assert.deepEqual(events(running, at({ ready: 1 }, [], noon)), ['stopped']);
    assert.deepEqual(events(running, at({ suspended: true })), ['stopped']);
  });

  test('that had ended long before its first observation is not reported', () => {
    const atTime = (now: number) => clusterNotices(undefined, complete, now).notices.map(({ event }) => event);
    assert.deepEqual(atTime(noon + hour + minute), ['succeeded']);
    assert.deepEqual(atTime(noon + 3 * hour), []);
  });

  test('whose pod is evicted is reported once', () => {
    const pod = aClusterPod();
    const evicted = aClusterPod({ conditions: [aCondition('DisruptionTarget')] });
    const after = at({ ready: 1 }, [evicted]);
    assert.deepEqual(events(at({ ready: 1 }, [pod]), after), ['preempted']);
    assert.deepEqual(events(after, after), []);
  });

  test('has the facts of the cluster', () => {
    const [notice] = clusterNotices(running, complete, noon).notices;
    assert.deepEqual(notice, {
      event: 'succeeded',
      at: noon,
      job: 'train',
      name: 'train',
      owner: 'ada',
      backend: 'kubernetes',
      attempt: null,
      accelerator: null,
      location: 'lab/vision',
      message: 'took 1h00m',
    });
  });
});

test('an orphan belongs to no job and to no owner', () => {
  const { owner, job, event, message } = orphanNotice(anOrphan, noon);
  assert.deepEqual([owner, job, event], [null, null, 'orphans']);
  assert.match(message, /projects\/p\/n \(READY\)/);
});
