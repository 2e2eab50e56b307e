import { resolve } from 'node:path';
import { usageError } from '../../app/errors.ts';
import { readTextFile } from '../../manifest/files.ts';
import { disk } from '../disk.ts';

const maxFlavorBytes = 64 * 1024;

/** Undefined if there is no such file. Throws a usage error. */
export function readFlavorFile(folder: string, name: string): string | undefined {
  const path = resolve(folder, name);
  const { kind } = disk.inspect(path);
  if (kind === 'absent' || kind === 'folder') return undefined;
  const read = readTextFile(disk, path, maxFlavorBytes);
  if ('text' in read) return read.text;
  throw usageError(`The flavor's file ${path} ${read.reason}.`);
}
