// A record that an earlier version wrote is brought up to date by whoever opens it.

import assert from 'node:assert/strict';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { test } from 'node:test';
import { openStore } from '../../src/store/store.ts';
import { aJob, living, noon, ready, tpuSpec } from '../support/builders.ts';
import { temporaryFolder } from '../support/folder.ts';

test('the second version knows of the places of all jobs that the first one wrote down', async (t) => {
  const folder = temporaryFolder(t);
  const file = join(folder, 'state.db');
  const spec = tpuSpec();
  const first = openStore({ file });
  const { job, revision } = await first.insert({ owner: 'ada', spec, manifest: '', at: noon });
  const lived = living({ ...aJob(spec), id: job.id, installation: job.installation }, [ready], []);
  await first.commit({ job: lived, revision, events: [], folded: [], wakeAt: null, epoch: null });
  await first.insert({ owner: 'ada', spec, manifest: '', at: noon });
  await first.close();

  const db = new DatabaseSync(file);
  db.exec(`drop index job_sweep; alter table job drop column place; alter table job drop column sweep_until; alter table outcome drop column attempt;
           alter table lease drop column renewed_at; alter table lease drop column paused_from; alter table lease drop column paused_until;
           drop table job_place; drop table place_answer;
           drop table lab_window; drop table lab_job; drop table lab_login; drop table lab_user; drop table lab_tpu;
           drop table lab_tpu_alias; drop table lab_booking; drop table cluster_log; drop table cluster_moment; drop table cluster_job; drop table cluster_place;
           delete from migration where name >= '0002_sweep'`);
  db.close();

  const again = openStore({ file });
  t.after(() => again.close());
  const { refs, goneAt } = await again.sweepable(noon);
  assert.deepEqual([refs.map(({ job }) => job.id), goneAt], [[job.id], null]);
});
