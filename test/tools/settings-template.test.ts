/** A build renews the settings template in dist/, unless a user has edited it. */
import assert from 'node:assert/strict';
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { publishSettingsTemplate } from '../../tools/settings-template.ts';
import { openWorld } from '../support/world.ts';

function templatePaths(t: TestContext) {
  const { folder } = openWorld(t);
  const [source, file, checksumFile] = ['source.json', 'settings.json', 'checksum'].map((name) =>
    join(folder, name),
  ) as [string, string, string];
  writeFileSync(source, '{}');
  return { folder, source, file, checksumFile, content: () => readFileSync(file, 'utf8') };
}

test('it is written, and renewed with the source', (t) => {
  const { folder, content, ...all } = templatePaths(t);
  assert.equal(publishSettingsTemplate(all), true);
  writeFileSync(all.source, '{ "job": {} }');
  assert.equal(publishSettingsTemplate(all), true);
  assert.equal(content(), '{ "job": {} }');
  assert.ok(readdirSync(folder).every((name) => !name.endsWith('.new')));
});

test('an edited template stays, whatever happens to the source', (t) => {
  const { content, ...all } = templatePaths(t);
  publishSettingsTemplate(all);
  writeFileSync(all.file, '{ "mine": 1 }');
  for (const next of ['{ "a": 1 }', '{ "b": 2 }']) {
    writeFileSync(all.source, next);
    assert.equal(publishSettingsTemplate(all), false);
    assert.equal(content(), '{ "mine": 1 }');
  }
  // Removing it gives the new template.
  rmSync(all.file);
  assert.equal(publishSettingsTemplate(all), true);
  assert.equal(content(), '{ "b": 2 }');
});

test('a template without its checksum counts as edited, unless it equals the source', (t) => {
  const { content, ...all } = templatePaths(t);
  publishSettingsTemplate(all);
  rmSync(all.checksumFile);
  assert.equal(publishSettingsTemplate(all), true);
  rmSync(all.checksumFile);
  writeFileSync(all.source, '{ "a": 1 }');
  assert.equal(publishSettingsTemplate(all), false);
  assert.equal(content(), '{}');
});
