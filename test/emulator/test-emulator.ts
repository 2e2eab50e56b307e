// An emulator for one test, on a clock that the test advances, in a folder that is removed with the test.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { runAdminVerb } from '../../src/emulator/admin.ts';
import type { AdminReply, Emulator, EmulatorOptions } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { createManualClock, type ManualClock } from './manual-clock.ts';

export const zone = 'us-central2-b';
const parent = `projects/emulator/locations/${zone}`;

export const minutes = (count: number): number => count * 60_000;

/** A reply; the test states the type of its fields. */
// The shape differs from call to call, and a wrong guess fails the assertion that reads it.
// oxlint-disable-next-line typescript/no-explicit-any
export type Reply = any;

export interface EmulatorFixture {
  readonly emulator: Emulator;
  readonly clock: ManualClock;
  readonly stateDir: string;
  /**
   * A call of a path below `/v2/projects/emulator/locations/us-central2-b/`, or of an absolute path; returns status and
   * body.
   */
  call(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly body: Reply }>;
  /** A call that must succeed. */
  ok(method: string, path: string, body?: object): Promise<Reply>;
  createNode(id: string, more?: object): Promise<Reply>;
  /** Creates a node and advances two minutes, after which it is READY. */
  createReadyNode(id: string, more?: object): Promise<void>;
  createQueued(id: string, more?: object): Promise<Reply>;
  nodeState(id: string): Promise<string>;
  queuedState(id: string): Promise<string>;
  operation(begun: Reply): Promise<Reply>;
  admin(verb: string, target?: string, options?: Record<string, string>): Promise<AdminReply>;
}

export const nodeBody = {
  acceleratorType: 'v4-8',
  runtimeVersion: 'tpu-ubuntu2204-base',
  schedulingConfig: { spot: true },
  networkConfig: { enableExternalIps: true },
};

export async function startTestEmulator(
  context: TestContext,
  options: Partial<EmulatorOptions> = {},
): Promise<EmulatorFixture> {
  const stateDir = options.stateDir ?? mkdtempSync(join(tmpdir(), 'emulator-test-'));
  const clock = createManualClock();
  const emulator = await startEmulator({
    stateDir,
    seed: 7,
    speed: 1,
    clock,
    // These tests start no processes, so folders serve as hosts.
    isolation: 'none',
    env: {},
    ...options,
  });
  context.after(async () => {
    await emulator.close();
    rmSync(stateDir, { recursive: true, force: true });
  });
  const fixture: EmulatorFixture = {
    emulator,
    clock,
    stateDir,
    async call(method, path, body) {
      const url = path.startsWith('/') ? path : `/v2/${parent}/${path}`;
      const reply = await fetch(`${emulator.url}${url}`, {
        method,
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      });
      return { status: reply.status, body: (await reply.json()) as Reply };
    },
    async ok(method, path, body) {
      const reply = await fixture.call(method, path, body);
      assert.equal(reply.status, 200, JSON.stringify(reply.body));
      return reply.body;
    },
    createNode: (id, more = {}) => fixture.ok('POST', `nodes?nodeId=${id}`, { ...nodeBody, ...more }),
    async createReadyNode(id, more = {}) {
      await fixture.createNode(id, more);
      clock.advance(minutes(2));
    },
    createQueued: (id, more = {}) =>
      fixture.ok('POST', `queuedResources?queuedResourceId=${id}`, {
        spot: {},
        tpu: { nodeSpec: [{ parent, nodeId: `${id}-node`, node: nodeBody }] },
        ...more,
      }),
    nodeState: async (id) => {
      const { body } = await fixture.call('GET', `nodes/${id}`);
      return body.state ?? body.error.status;
    },
    queuedState: async (id) => {
      const { body } = await fixture.call('GET', `queuedResources/${id}`);
      return body.state?.state ?? body.error.status;
    },
    operation: (begun) => fixture.ok('GET', `/v2/${begun.name}`),
    admin: (verb, target, more = {}) => runAdminVerb(emulator.url, verb, target, more),
  };
  return fixture;
}

/** Waits until hosts have started or stopped, independently of the test's clock. */
export async function waitForHosts(fixture: EmulatorFixture): Promise<void> {
  // An admin call returns once the hosts match the world. Clearing a condition that is not in force changes nothing.
  await fixture.admin('clear', 'all');
}
