// A copied home whose original still exists must not change machines, even before any write to the database.

import assert from 'node:assert/strict';
import { cpSync, mkdtempSync, renameSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { workerTicket } from '../../src/app/worker-access.ts';
import type { Job } from '../../src/core/model/job.ts';
import type { Services } from '../../src/app/services.ts';
import { openDatabase, requireOriginalHome } from '../../src/store/open-database.ts';
import { createStepRunner, createWorkerRoutes } from '../../src/wiring/worker-access.ts';
import { openClouds } from '../../src/wiring/clouds.ts';

test('a copy releases nothing and runs nothing on workers while its original exists', async (t) => {
  const top = mkdtempSync(join(tmpdir(), 'original-home-'));
  t.after(() => rmSync(top, { recursive: true, force: true }));
  const original = join(top, 'original');
  const home = join(top, 'copy');
  const file = join(home, 'state.db');
  const record = openDatabase({ file: join(original, 'state.db') });
  await record.write(() => Promise.resolve());
  await record.close();
  await requireOriginalHome({ file: join(original, 'state.db') });
  await requireOriginalHome({ file: join(top, 'none', 'state.db') });
  cpSync(original, home, { recursive: true });

  const services = {
    home,
    io: { now: () => 0, env: {}, user: 'ada', cwd: top },
    settings: () => Promise.resolve({ tpu: { project: null, forgottenProjects: [] }, grants: [] }),
    installationId: () => Promise.resolve('abcdef'),
  } as unknown as Services;
  const clouds = await openClouds(services);
  const orphan = {
    backend: 'tpu',
    resource: 'projects/p/locations/z/nodes/n',
    installation: 'abcdef',
    job: '000001',
    allocation: 1,
    state: 'READY',
  } as const;
  const attempts: readonly (() => Promise<unknown>)[] = [
    () => requireOriginalHome({ file }),
    () => clouds.releaseOrphan(orphan),
    () => createStepRunner(services, {} as Parameters<typeof createStepRunner>[1]),
    () => workerTicket(createWorkerRoutes(services), {} as Job, {}),
  ];
  for (const attempt of attempts) await assert.rejects(attempt, /is a copy of \S+, which still exists/u);

  renameSync(original, join(top, 'old'));
  await requireOriginalHome({ file });
});
