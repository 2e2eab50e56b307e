// What is to be done in a namespace, decided from what is known of it.

import assert from 'node:assert/strict';
import { test } from 'node:test';
import { emptyView, logKey, noteGone, noteJob, notePod, planFor, podsOf } from '../../src/controller/cluster-view.ts';
import { aClusterJob, aClusterPod } from '../app/cluster/sample.ts';

const running = aClusterJob();
const over = aClusterJob({
  conditions: [{ type: 'Complete', status: 'True', reason: null, message: null, at: 5 }],
});
const pod = aClusterPod();

test('pods are watched while a job is open or a log is followed', () => {
  const view = emptyView();
  assert.equal(planFor(view).watchesPods, false);
  noteJob(view, running);
  assert.equal(planFor(view).watchesPods, true);
  noteJob(view, over);
  assert.equal(planFor(view).watchesPods, false);
  view.following.add(logKey('u1', pod.name, 'main'));
  assert.equal(planFor(view).watchesPods, true);
  assert.equal(planFor({ ...view, arePodsRefused: true }).watchesPods, false);
});

test('a namespace is empty once all has been told and nothing of ours is left to write', () => {
  const view = { ...emptyView(), isSynced: true };
  assert.equal(planFor(view).isEmpty, true);
  noteJob(view, running);
  view.changed.add('u1');
  noteGone(view, running);
  assert.equal(planFor(view).isEmpty, false);
  view.changed.clear();
  assert.equal(planFor(view).isEmpty, true);
});

test('a pod that has gone belongs to its job until that is written down', () => {
  const view = emptyView();
  noteJob(view, running);
  assert.equal(notePod(view, pod, false)?.uid, 'u1');
  notePod(view, pod, true);
  assert.deepEqual(podsOf(view, running), [pod]);
});
