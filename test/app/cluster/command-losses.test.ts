/** The question before a command on a cluster job names the losses. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { clusterCommandLosses } from '../../../src/app/cluster/command-losses.ts';
import { aClusterJob, noon } from '../../support/cluster-builders.ts';

test('a command names the pods that end, and the logs that no archive has', () => {
  const running = { job: aClusterJob({ active: 4, installation: 'one' }), zone: 'lab/vision', archivedAt: null };
  const foreign = { ...running, job: aClusterJob({ active: 1, installation: null }) };
  const archived = { ...running, archivedAt: noon };
  assert.match(clusterCommandLosses(running, 'stop').join(' '), /^Its 4 pods end\. The work since .* is lost\./);
  assert.match(clusterCommandLosses(running, 'delete').join(' '), /deleted from lab\/vision\. Only the logs/);
  assert.match(clusterCommandLosses(foreign, 'cancel').join(' '), /^Its pod ends\. .*Its logs are lost/);
  assert.match(clusterCommandLosses(archived, 'delete').join(' '), /^The job leaves the list\./);
  for (const command of ['start', 'rerun'] as const) assert.deepEqual(clusterCommandLosses(running, command), []);
});
