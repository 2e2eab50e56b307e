import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SetValue } from '../../src/manifest/overrides.ts';
import { assertRefused, local, problemsOf, specOf, tpu } from './pretend.ts';

function sets(...texts: readonly string[]): { sets: readonly SetValue[] } {
  return {
    sets: texts.map((text) => ({ path: text.slice(0, text.indexOf('=')), value: text.slice(text.indexOf('=') + 1) })),
  };
}

test('a value of the command line replaces the one of the file, of any type', () => {
  const text = tpu('job: {name: a}\n', 'run: "train ${command.lr}", lr: 0.1, workers: all');
  const { spec } = specOf(
    text,
    sets('command.lr=0.01', 'command.workers=[1]', 'job.name=b', 'job.max_runtime=2h', 'tpu.pricing=ondemand'),
  );
  assert.equal(spec.command.script, 'train 0.01');
  assert.deepEqual(spec.command.workers, [1]);
  assert.equal(spec.name, 'b');
  assert.equal(spec.limits.maxRuntime, 7_200_000);
  assert.equal(spec.recovery.preset, 'pass');
});

test('it is written as YAML, and what is no YAML is text', () => {
  const run = (value: string): string => specOf(local('${vars.x}'), sets(`vars.x=${value}`)).spec.command.script;
  assert.equal(run('1e-4'), '1e-4');
  assert.equal(run('3.10'), '3.10');
  assert.equal(run('a: b: c'), 'a: b: c');
  assert.equal(run('"quoted"'), 'quoted');
  assert.equal(run('*star'), '*star');
  assert.equal(run('[1, 2'), '[1, 2');
  assert.equal(run(' a '), 'a');
  assert.equal(run('# no comment'), '# no comment');
});

test('sections that are missing are made, also the empty one', () => {
  assert.equal(specOf('local:\ncommand: {run: ls}\n', sets('job.name=x')).spec.name, 'x');
  assert.equal(specOf('local:\n', sets('command.run=ls')).spec.command.script, 'ls');
  assert.equal(
    specOf('local:\ncommand: {run: ls}\n', { ...sets('local.workdir=sub'), files: { '/work/sub/x': '' } }).spec.capacity
      .kind,
    'local',
  );
});

test('it replaces the key under whichever name the file has it', () => {
  const { spec } = specOf('local: {}\ncommand: {cmd: old}\n', sets('command.run=new'));
  assert.equal(spec.command.script, 'new');
  assert.equal(specOf('local: {}\ncommand: {run: old}\n', sets('command.cmd=new')).spec.command.script, 'new');
});

test('one element of a list can be set, and one more added', () => {
  assert.deepEqual(specOf(tpu('job: {tags: [a, b]}\n'), sets('job.tags[1]=c', 'job.tags[2]=d')).spec.tags, [
    'a',
    'c',
    'd',
  ]);
  assertRefused(
    tpu('job: {tags: [a]}\n'),
    /--set job\.tags\[5\] job\.tags: has 1 elements; the next one is \[1\]/,
    sets('job.tags[5]=c'),
  );
});

test('a section can be taken away with null', () => {
  assert.equal(specOf(tpu(), sets('tpu=null', 'local={}')).spec.capacity.kind, 'local');
});

test('what is wrong with one is said with its own words', () => {
  assert.deepEqual(problemsOf(local('ls'), sets('job.nmae=x')), [
    '--set job.nmae: is no key of job (did you mean name?)',
  ]);
  assertRefused(
    local('ls'),
    /--set command\.run\.deep command\.run: is a value, so it has no key deep/,
    sets('command.run.deep=x'),
  );
  assertRefused(local('ls'), /--set job\.\.name: is no path of a key/, sets('job..name=x'));
  assertRefused(local('ls'), /is no path of a key/, sets('=x'));
  assertRefused(local('ls'), /did you mean workers\?/, sets('command.wrokers=0'));
});

test("a value of one's own has any name that is not too near to a known one", () => {
  for (const name of ['lr', 'seed', 'pace', 'batch_size', 'rank', 'eps']) {
    assert.equal(specOf(local(`\${command.${name}}`), sets(`command.${name}=7`)).spec.command.script, '7');
  }
  assertRefused(local('ls', '  lr: [1, 2]\n'), /command\.lr: wants a single value/);
});
