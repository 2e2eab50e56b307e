// A small cloud for one test: an emulator on a clock that the test moves, in a folder that goes with the test.

import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestContext } from 'node:test';
import { admin } from '../../src/emulator/admin.ts';
import type { AdminReply, Emulator, EmulatorOptions } from '../../src/emulator/contract.ts';
import { startEmulator } from '../../src/emulator/start.ts';
import { pretendTime, type PretendTime } from './pretend-time.ts';

export const zone = 'us-central2-b';
const parent = `projects/emulator/locations/${zone}`;

export const minutes = (count: number): number => count * 60_000;

/** A reply as the tests look at it: its fields are what the test says they are. */
// The shape differs from call to call, and a wrong guess fails the assertion that reads it.
// oxlint-disable-next-line typescript/no-explicit-any
export type Reply = any;

export interface Cloud {
  readonly emulator: Emulator;
  readonly time: PretendTime;
  readonly stateDir: string;
  /** A call below `/v2/projects/emulator/locations/us-central2-b/`, or from `/` on; its status and body. */
  call(method: string, path: string, body?: object): Promise<{ readonly status: number; readonly body: Reply }>;
  /** A call that must succeed. */
  ok(method: string, path: string, body?: object): Promise<Reply>;
  createNode(id: string, more?: object): Promise<Reply>;
  /** The same, and two minutes later, when it is READY. */
  readyNode(id: string, more?: object): Promise<void>;
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

export async function startCloud(context: TestContext, options: Partial<EmulatorOptions> = {}): Promise<Cloud> {
  const stateDir = options.stateDir ?? mkdtempSync(join(tmpdir(), 'emulator-test-'));
  const time = pretendTime();
  const emulator = await startEmulator({
    stateDir,
    seed: 7,
    speed: 1,
    clock: time,
    // No processes are started in these tests, so the simplest host will do everywhere.
    isolation: 'none',
    env: {},
    ...options,
  });
  context.after(async () => {
    await emulator.close();
    rmSync(stateDir, { recursive: true, force: true });
  });
  const cloud: Cloud = {
    emulator,
    time,
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
      const reply = await cloud.call(method, path, body);
      assert.equal(reply.status, 200, JSON.stringify(reply.body));
      return reply.body;
    },
    createNode: (id, more = {}) => cloud.ok('POST', `nodes?nodeId=${id}`, { ...nodeBody, ...more }),
    async readyNode(id, more = {}) {
      await cloud.createNode(id, more);
      time.advance(minutes(2));
    },
    createQueued: (id, more = {}) =>
      cloud.ok('POST', `queuedResources?queuedResourceId=${id}`, {
        spot: {},
        tpu: { nodeSpec: [{ parent, nodeId: `${id}-node`, node: nodeBody }] },
        ...more,
      }),
    nodeState: async (id) => {
      const { body } = await cloud.call('GET', `nodes/${id}`);
      return body.state ?? body.error.status;
    },
    queuedState: async (id) => {
      const { body } = await cloud.call('GET', `queuedResources/${id}`);
      return body.state?.state ?? body.error.status;
    },
    operation: (begun) => cloud.ok('GET', `/v2/${begun.name}`),
    admin: (verb, target, more = {}) => admin(emulator.url, verb, target, more),
  };
  return cloud;
}

/** Lets hosts come up or go down, which is not a matter of the test's clock. */
export async function hostsSettle(cloud: Cloud): Promise<void> {
  // The admin door answers when the hosts are as they should be; clearing nothing changes nothing.
  await cloud.admin('clear', 'all');
}
