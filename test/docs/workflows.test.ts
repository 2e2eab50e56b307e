// The workflows of the hosted CI run on another machine, where a wrong flag would be noticed a day later.

import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { test } from 'node:test';
import { parse } from 'yaml';
import { simOptions } from '../../sim/options.ts';

interface Workflow {
  readonly on: Readonly<Record<string, unknown>>;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly jobs: Readonly<Record<string, { readonly steps: readonly Step[] }>>;
}

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly env?: Readonly<Record<string, unknown>>;
  readonly with?: Readonly<Record<string, unknown>>;
}

const folder = new URL('../../.github/workflows/', import.meta.url);
const { scripts } = JSON.parse(await readFile(new URL('../../package.json', import.meta.url), 'utf8')) as {
  readonly scripts: Readonly<Record<string, string>>;
};

for (const name of await readdir(folder)) {
  test(`the command lines of ${name} exist`, async () => {
    const workflow = parse(await readFile(new URL(name, folder), 'utf8')) as Workflow;
    const steps = Object.values(workflow.jobs).flatMap((job) => job.steps);
    for (const { run, uses, env } of steps) {
      if (run === undefined) {
        assert.match(
          uses ?? '',
          /^actions\/[a-z-]+@v\d+$/,
          'a step runs something, or is an action of a fixed version',
        );
        continue;
      }
      for (const [, script = '', flags = ''] of run.matchAll(/npm run ([\w:-]+)(?: -- (.*))?/g)) {
        assert.ok(script in scripts, `package.json has no script ${script}`);
        if (script !== 'sim') continue;
        for (const [, flag = ''] of flags.matchAll(/--([a-z-]+)/g))
          assert.ok(flag in simOptions, `npm run sim has no flag --${flag}`);
      }
      // Variables are those of the workflow or of the runner, or are set by the step itself.
      for (const [, variable = ''] of run.matchAll(/\$\{?([A-Za-z_]+)/g)) {
        const isSet: boolean = run.includes(`${variable}=$(`) || /^(GITHUB_[A-Z_]+|HOME|PATH)$/.test(variable);
        assert.ok(isSet || variable in { ...workflow.env, ...env }, `nothing sets ${variable}`);
      }
      for (const [, expression = ''] of run.matchAll(/\$\(\(([^)]*)\)\)/g)) {
        for (const [variable] of expression.matchAll(/[A-Z_]{3,}/g))
          assert.ok(
            variable.startsWith('GITHUB_') || variable in { ...workflow.env, ...env },
            `nothing sets ${variable}`,
          );
      }
    }
  });
}

test('a schedule runs new seeds, and keeps the failures', async () => {
  const text = await readFile(new URL('fresh-seeds.yml', folder), 'utf8');
  const { on, jobs } = parse(text) as Workflow;
  assert.ok('schedule' in on);
  const lines = Object.values(jobs).flatMap(({ steps }) =>
    steps.flatMap(({ run }) => (run === undefined ? [] : [run])),
  );
  const runs = lines.filter((line) => line.startsWith('npm run sim'));
  assert.deepEqual(
    runs.map((line) => line.includes('--lab --afternoon')),
    [false, true],
  );
  for (const line of runs) {
    assert.match(line, /--seed \$\(\(\d+ \+ GITHUB_RUN_NUMBER \* [A-Z]+\)\)/, 'each run begins behind the one before');
    assert.match(line, /--keep-going --found found$/);
  }
  const upload = Object.values(jobs).flatMap(({ steps }) =>
    steps.filter(({ uses }) => uses?.includes('upload-artifact')),
  );
  assert.deepEqual(
    upload.map((step) => step.with?.['path']),
    ['found'],
  );
  assert.match(text, /cat found\/seeds\.md/);
});
