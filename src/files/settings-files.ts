// Settings files: reads the layers of settings from the files of this machine.

import { readFileSync } from 'node:fs';
import { exitCode, isFileMissing, JobmanError } from '../app/errors.ts';
import { fileError } from '../app/file-errors.ts';
import type { SettingsFiles, SettingsLayer } from '../app/settings.ts';
import { settingsFile } from './files.ts';

/** Later files override earlier ones. Throws JobmanError without `explicit`, StoreError for an unreadable file. */
export async function settingsLayers({
  home,
  template = null,
  explicit,
}: SettingsFiles): Promise<readonly SettingsLayer[]> {
  const own = settingsFile(home);
  const files = [
    ...(template === null ? [] : [{ path: template, name: 'template' }]),
    { path: own, name: 'settings.json' },
    ...(explicit === undefined ? [] : [{ path: explicit, name: explicit }]),
  ];
  const layers: SettingsLayer[] = [];
  for (const { path, name } of files) {
    const text = await readOptional(path);
    if (text !== undefined) layers.push({ path, name, text, isOwn: path === own });
    else if (path === explicit) throw new JobmanError(`There is no settings file ${path}.`, exitCode.usage);
  }
  return layers;
}

export async function readOptional(path: string): Promise<string | undefined> {
  try {
    // Synchronous: fs/promises would load a part of Node and start its threads for a small file.
    return readFileSync(path, 'utf8');
  } catch (error) {
    if (isFileMissing(error)) return undefined;
    throw fileError(path, error);
  }
}
