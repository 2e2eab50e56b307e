import assert from 'node:assert/strict';
import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { version } from '../src/version.ts';
import { root } from './support/root.ts';

interface Package {
  readonly version: string;
  readonly bin: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
  readonly devDependencies: Readonly<Record<string, string>>;
}

const read = (file: string): string => readFileSync(join(root, file), 'utf8');
const manifest = JSON.parse(read('package.json')) as Package;

test('the version in the source is the version of the package', () => {
  assert.equal(version, manifest.version, 'Change src/version.ts together with package.json.');
});

test('the pages name the archive of this version', () => {
  for (const page of ['README.md', 'docs/releasing.md'])
    assert.ok(read(page).includes(`./jobman-${version}.tgz`), page);
});

test('every command of the package exists and is executable', () => {
  for (const file of Object.values(manifest.bin)) accessSync(join(root, file), constants.X_OK);
});

test('every dependency has one exact version', () => {
  for (const [name, wanted] of Object.entries({ ...manifest.dependencies, ...manifest.devDependencies })) {
    assert.match(wanted, /^\d+\.\d+\.\d+$/, `${name} is \`${wanted}\`; pin it.`);
  }
});

test('the lockfile pins content and names no registry', () => {
  const { packages } = JSON.parse(read('package-lock.json')) as {
    packages: Record<string, { resolved?: string; integrity?: string }>;
  };
  for (const [path, entry] of Object.entries(packages)) {
    assert.equal(entry.resolved, undefined, `${path} is bound to one address; see .npmrc.`);
    if (path !== '') assert.ok(entry.integrity, `${path} has no hash.`);
  }
});
