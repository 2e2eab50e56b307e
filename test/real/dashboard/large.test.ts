/** Pages with much more than fits on a screen draw a small part of it, and the rest as a person scrolls to it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Page } from 'playwright-core';
import type { Client } from '../../../src/app/client.ts';
import type { QueuedRow } from '../../../src/app/queue.ts';
import { jobActions } from '../../../src/core/policy/permissions.ts';
import { noLimits } from '../../../src/core/policy/limits.ts';
import { hour, minute } from '../../../src/core/model/time.ts';
import type { CheckRow } from '../../../src/lab/check-rows.ts';
import type { LabClient } from '../../../src/lab/lab-client.ts';
import type { UsedTpu } from '../../../src/lab/lab-usage.ts';
import { costReport } from '../../../src/reports/cost.ts';
import { attemptView, allocationView, jobView, tpuRow } from '../../cli/support/harness.ts';
import { assertAccessible, openBrowser } from '../../support/browser.ts';
import { aJob, aMember, usageRow } from '../../support/builders.ts';
import { aUser } from '../../support/lab-builders.ts';
import { eventually } from '../../support/eventually.ts';
import { openPageServer } from '../../support/page-server.ts';
import { openJobWorld } from '../../support/jobs.ts';

const maxNodes = 1500;
const now = Date.now();

function many<T>(count: number, make: (number: number) => T): readonly T[] {
  return Array.from({ length: count }, (_, index) => make(index + 1));
}

/** With the page size of a request, as a store does it. */
function pageOf<T>(rows: readonly T[], { limit = 100, cursor = '0' }: { limit?: number; cursor?: string } = {}) {
  const from = Number(cursor);
  const page = rows.slice(from, from + limit);
  return Object.assign([...page], from + limit < rows.length ? { next: String(from + limit) } : {});
}

const users = many(200, (number) => `user-${number}`);

const client: Partial<Client> = {
  whoAmI: async () => aMember('ada', { role: 'admin' }),
  async *changesSince() {
    yield { kind: 'jobs', cursor: '0' };
    await new Promise(() => undefined);
  },
  list: async () => ({ rows: [], more: 0, notes: [] }),
  async *readLogs() {},
  users: async () =>
    users.map((name) => ({
      name,
      role: 'member',
      logins: [name],
      account: `${name}@example.com`,
      accountBoundAt: null,
      createdAt: now,
      disabledAt: null,
      limits: noLimits,
    })),
  tokens: async (page) =>
    pageOf(
      many(200, (number) => ({
        id: `tok_${number}`,
        name: `laptop-${number}`,
        user: `user-${number}`,
        role: 'member' as const,
        createdAt: now,
        createdBy: 'ada',
        expiresAt: now + hour,
        lastUsedAt: null,
        revokedAt: null,
      })),
      { limit: 1000, ...page },
    ),
  audit: async (query) =>
    pageOf(
      many(10_000, (number) => ({
        seq: number,
        at: now - number * minute,
        actor: `user-${number % 200}`,
        role: 'member' as const,
        login: 'ada',
        token: null,
        operation: 'cancel',
        object: { kind: 'job' as const, id: String(number).padStart(6, '0') },
        outcome: 'allowed' as const,
        detail: number % 7 === 0 ? { reason: 'a long text that wraps into several lines '.repeat(4) } : {},
      })),
      query,
    ),
  queue: async () => ({
    rows: many(10_000, (number): QueuedRow => ({
      ...jobView({ id: String(number).padStart(6, '0'), name: `waits-${number}`, phase: 'queued' }),
      attempt: 1,
      requests: '1 slot',
      blockedBy: { kind: 'host', object: 'localhost', untilAt: null },
      sentence: '1 of 1 slot on this machine in use',
      queuePosition: null,
      waitsSinceAt: now - number * minute,
      typicalWait: null,
      nextAt: null,
    })),
    more: 0,
    hosts: [],
  }),
  cost: async ({ by }) => {
    const rows = many(500, (number) => usageRow({ job: String(number).padStart(6, '0'), owner: `user-${number}` }));
    return costReport(rows, { by }, now);
  },
  activity: async () => [],
  zones: async () =>
    many(100, (number) => ({
      project: 'lab',
      zone: `zone-${number}`,
      accelerator: 'v4-8',
      pricing: 'spot' as const,
      lastAnswer: null,
      lastGrant: null,
      heldBy: [],
      awaitedBy: many(500, String),
      simulated: false,
    })) as never,
  tpus: async () => ({
    rows: many(1000, (number) => tpuRow({ name: `tpu-${number}`, zone: `zone-${number % 100}` })),
    unchecked: [],
    anyAnswered: true,
    forgettable: [],
    projects: ['lab'],
    suggestion: null,
  }),
  knownQuota: async () => [],
  show: async () =>
    jobView({
      id: '000001',
      attempts: many(500, (attempt) =>
        attemptView({
          attempt,
          createdAt: now - (501 - attempt) * hour,
          startedAt: now - (501 - attempt) * hour + minute,
          endedAt: attempt === 500 ? null : now - (500 - attempt) * hour,
          reason: attempt === 500 ? null : 'preempted',
        }),
      ),
      allocations: many(500, (allocation) => allocationView({ allocation })),
      workers: many(256, (worker) => ({
        worker,
        address: `10.0.0.${worker}`,
        message: 'running',
        logAgeMs: 1000,
        lastLine: `step ${worker}`,
      })),
    }),
  actions: async () => jobActions(aJob(), aMember('ada')),
  workerFigures: async () => ({ kind: 'unknown', reason: 'not measured' }),
  events: async () =>
    Object.assign(
      many(5000, (seq) => ({ seq, event: { kind: 'attempt_running', at: now, attempt: 1 } })),
      {},
    ) as never,
  usage: async () => pageOf([]),
  logs: async () =>
    pageOf(
      many(256, (worker) => ({
        job: '000001',
        id: `attempt_500/command_worker_${worker}`,
        worker,
        attempt: 500,
        step: null,
        size: 0,
        changedAt: now,
        isComplete: true,
      })),
      { limit: 1000 },
    ),
};

const lab: Partial<LabClient> = {
  tpuAliases: async () => ({}),
  users: async () => users.map((name, id) => ({ ...aUser(name), id })),
  usage: async () => ({
    tpus: many(1000, (number): UsedTpu => ({
      tpu: `lab-v2-8-${number}`,
      alias: `v2-8-${number}`,
      aliases: [],
      accelerator: 'v2-8',
      zone: 'us-central1-b',
      booking: {
        tpu: `lab-v2-8-${number}`,
        alias: `v2-8-${number}`,
        status: { kind: 'reserved' },
        user: `user-${number % 200}`,
        note: number % 3 === 0 ? 'until monday' : '',
        scriptNote: '',
        owner: '',
        zone: 'us-central1-b',
        changedAt: now,
        changedBy: 'ada',
      },
      jobs: [
        {
          job: String(number).padStart(6, '0'),
          name: `vit-${number}`,
          user: number % 5 === 0 ? 'zed' : `user-${number % 200}`,
          sheetName: number % 5 === 0 ? 'zed' : `user-${number % 200}`,
          window: 1,
          phase: 'running',
          phaseStartedAt: now,
        },
      ],
      lastUsedAt: null,
      use: null,
    })),
    sheet: { name: 'the booking table', readAt: now, failure: null, problems: [], late: [] },
    hiddenJobs: 0,
  }),
  checkRows: async (user) =>
    many(30, (window): CheckRow => ({
      window,
      job: String(window).padStart(6, '0'),
      attempt: 1,
      tag: null,
      stage: 0,
      lineage: [window],
      directory: `/code/${user}`,
      folder: user,
      tpu: 'lab-v2-8-1',
      tpuShort: 'v2-8-1',
      status: { kind: 'succeeded' },
      since: now,
      message: '',
      windowClosed: false,
    })),
};

/** The nodes now, and the most while the page is scrolled to its end. */
async function scrollToEnd(page: Page): Promise<number> {
  return page.evaluate<number>(`(async () => {
    const count = () => document.querySelectorAll('*').length;
    const main = document.querySelector('main');
    let most = count();
    for (let still = 0; still < 5; ) {
      const before = main.scrollTop;
      main.scrollTop += main.scrollHeight / 10;
      await new Promise((resolve) => requestAnimationFrame(() => setTimeout(resolve)));
      most = Math.max(most, count());
      still = main.scrollTop === before ? still + 1 : 0;
    }
    return most;
  })()`);
}

test('pages with thousands of rows stay small, and have each row where a person scrolls to', async (t) => {
  const world = openJobWorld(t);
  const server = await openPageServer({ actor: aMember('ada', { role: 'admin' }), client, lab });
  world.atEnd(() => server.close());
  const open = await openBrowser(t, world);
  if (open === undefined) return;
  const { page } = await open({ viewport: { width: 1280, height: 800 } });
  await page.goto(server.address);
  /** `first` is there at once, and `last` after a scroll to the end. */
  const isSmall = async (path: string, first: RegExp, last: RegExp) => {
    await page.goto(new URL(path, server.address).href);
    const row = (name: RegExp) => page.locator('tr, h1, h2, h3').filter({ hasText: name }).first();
    await row(first).waitFor();
    let nodes = 0;
    // Rows that arrive meanwhile move the end.
    const isAtEnd = async () => {
      nodes = Math.max(nodes, await scrollToEnd(page));
      return row(last).isVisible();
    };
    assert.ok(await eventually(isAtEnd), `${path} has no ${last} at its end`);
    t.diagnostic(`${path}: ${nodes} nodes`);
    assert.ok(nodes <= maxNodes, `${path} has ${nodes} nodes`);
  };
  await isSmall('/lab?user=*', /^v2-8-1v2/, /^user-200/);
  await isSmall('/lab?user=user-7', /^v2-8-1v2/, /^user-7/);
  await assertAccessible(page);
  await isSmall('/users', /^user-1/, /^user-200/);
  await isSmall('/tokens', /^laptop-1/, /^laptop-200/);
  await isSmall('/reports?by=job', /^000001/, /^total/);
  await isSmall('/tpus', /^tpu-1/, /^zone-100/);
  await isSmall('/queue', /waits-1/, /^Queue/);
  await isSmall('/jobs/000001', /^Attempts/, /^Facts/);
  await isSmall('/jobs/000001?section=workers', /^256 workers/, /^256 workers/);
  await isSmall('/jobs/000001?section=history', /^History/, /^History/);
  await page.goto(new URL('/jobs/000001/logs', server.address).href);
  await page.getByRole('button', { name: 'Download' }).click();
  await page.getByText('attempt_500/command_worker_1', { exact: false }).first().waitFor();
  const nodes = Number(await page.evaluate('document.querySelectorAll("*").length'));
  assert.ok(nodes <= maxNodes, `the logs have ${nodes} nodes`);
  await page.goto(new URL('/audit', server.address).href);
  const rows = async () => Number(await page.locator('table[aria-rowcount]').getAttribute('aria-rowcount'));
  for (let before = await rows(); before < 1_001; before = await rows()) {
    // New rows may move the button during a click, which then has no effect.
    const hasMore = async () => {
      await page.getByRole('button', { name: 'Show older requests' }).click();
      return eventually(async () => (await rows()) > before, { withinMs: 5_000 });
    };
    assert.ok(await eventually(hasMore), `no more than ${before} rows`);
  }
  assert.ok((await scrollToEnd(page)) <= maxNodes, 'the audit log');
  await page.getByText('job 001000').waitFor();
  await assertAccessible(page);
});
