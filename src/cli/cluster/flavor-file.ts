// A flavor that stands in a file of its own.

import { resolve } from 'node:path';
import { exitCode, JobmanError } from '../../app/errors.ts';
import { readText } from '../../manifest/door.ts';
import { disk } from '../disk.ts';

/** A flavor is a few lines. */
const flavorMost = 64 * 1024;

/** The text of a file that a flavor may be in, seen from that folder; undefined when there is none. Throws a usage error. */
export function flavorFile(folder: string, name: string): string | undefined {
  const path = resolve(folder, name);
  const { kind } = disk.look(path);
  if (kind === 'absent' || kind === 'folder') return undefined;
  const read = readText(disk, path, flavorMost);
  if ('text' in read) return read.text;
  throw new JobmanError(`The flavor's file ${path} ${read.why}.`, exitCode.usage);
}
