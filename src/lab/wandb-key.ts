// The key for Weights & Biases: from the environment of whoever asks, else from the file that the settings name. It is handed
// on to workers and shown to nobody.

import { readFile } from 'node:fs/promises';
import { exitCode, JobmanError } from '../app/errors.ts';
import { wandbVariable } from './mount-step.ts';
import type { Site } from './site.ts';

/** The key; null where there is none. Throws JobmanError (2) when there is something else in its place. */
export async function wandbKey(
  { wandbKeyFile }: Pick<Site, 'wandbKeyFile'>,
  env: Readonly<Record<string, string | undefined>>,
): Promise<string | null> {
  const said = env[wandbVariable] ?? '';
  if (said !== '') return checked(said.trim(), `The variable ${wandbVariable}`);
  if (wandbKeyFile === null) return null;
  let text: string;
  try {
    text = await readFile(wandbKeyFile, 'utf8');
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`The file of the key for W&B cannot be read: ${wandbKeyFile}`, exitCode.usage, [
      why,
      'jobman settings unset lab.wandbKeyFile    does without',
    ]);
  }
  return checked(text.trim(), `The file ${wandbKeyFile}`);
}

function checked(key: string, called: string): string {
  if (/^[A-Za-z0-9_.-]{8,}$/.test(key)) return key;
  throw new JobmanError(
    `${called} should hold a key for W&B, one word of letters and digits, and does not.`,
    exitCode.usage,
  );
}
