/** Prometheus' own checks of the alert rules and of the text of the metrics. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { test } from 'node:test';
import { createMeter } from '../../src/app/meter.ts';
import { send } from '../server/support/send.ts';
import { emptyMetrics, openServer } from '../server/support/server.ts';
import { findProgram, requireReal } from '../support/real.ts';
import { root } from '../support/root.ts';

test('Prometheus accepts the alert rules, and every line of the metrics', async (t) => {
  const promtool = findProgram('promtool');
  if (!requireReal(t, 'promtool', promtool) || promtool === undefined) return;
  const rules = spawnSync(promtool, ['check', 'rules', join(root, 'deploy/prometheus/alerts.yaml')], {
    encoding: 'utf8',
  });
  assert.equal(rules.status, 0, rules.stderr);

  const meter = createMeter();
  meter.count('jobman_actions_total', { action: 'start', outcome: 'done' });
  meter.time('jobman_recovery_seconds', 2_500, { reason: 'preempted' });
  meter.time('jobman_recovery_seconds', -1, { reason: 'preempted' });
  const { server } = await openServer(t, { metrics: { ...emptyMetrics(), meter } });
  await send(server.url, '/v1/jobs/"\\\n');
  const { text } = await send(server.url, '/metrics');
  const { status, stdout, stderr } = spawnSync(promtool, ['check', 'metrics'], { input: text, encoding: 'utf8' });
  assert.equal(status, 0, `${stdout}${stderr}${text}`);
  assert.match(text, /^jobman_recovery_seconds_bucket\{reason="preempted",le="1"\} 1$/m);
  assert.match(text, /^jobman_recovery_seconds_bucket\{reason="preempted",le="\+Inf"\} 2$/m);
});
