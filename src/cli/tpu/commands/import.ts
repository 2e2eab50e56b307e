// `tpu import data.json`: the data of the program before this one comes along.

import { resolve } from 'node:path';
import { setSetting } from '../../../app/change-settings.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import { jsonLines, JsonTextError, parseJson } from '../../../schema/json.ts';
import { readRegularFile } from '../../../app/regular-file.ts';
import { applyImport, planImport, type ImportLine, type ImportParts } from '../../../lab/import-data.ts';
import { oldDataIn, type OldData } from '../../../lab/old-data.ts';
import { runSpec, writtenLine } from '../../../lab/run.ts';
import { disk } from '../../disk.ts';
import { showImport } from '../../render/import-lines.ts';
import { type TpuBody, type TpuCli, wordsInUse } from '../tpu-cli.ts';
import { surroundings } from '../surroundings.ts';
import { textOf } from '../words.ts';

export const importData: TpuBody = async (desk, words) => {
  const data = await read(resolve(desk.io.cwd, textOf(words, 'file')));
  const parts = await partsOf(desk);
  const isMeant = words.flags.has('apply');
  const { record } = desk.lab;
  const lines = await (isMeant ? applyImport(record, data, parts) : planImport(record, data, parts));
  const others = await settingsOf(desk, data, isMeant);
  showImport(desk, [...lines, ...others], isMeant);
  return exitCode.ok;
};

async function read(path: string): Promise<OldData> {
  if (disk.look(path).kind === 'folder') {
    throw new JobmanError(`${path} is a folder; \`tpu import\` takes a data.json.`, exitCode.usage, [
      `The folder jobs/ of the TPU manager: jobman import ${path}`,
    ]);
  }
  const text = textIn(path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new JobmanError(`${path} is not valid JSON. Nothing was changed.`, exitCode.usage, [placeIn(text, path)]);
  }
  const data = oldDataIn(value);
  if (data !== undefined) return data;
  throw new JobmanError(`${path} is no data.json: it has no "users". Nothing was changed.`, exitCode.usage);
}

/** A data.json of many years has some megabytes. */
const dataMost = 64 * 1024 * 1024;

function textIn(path: string): string {
  try {
    return readRegularFile(path, dataMost).toString('utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') {
      throw new JobmanError(`There is no file ${path}.`, exitCode.notFound);
    }
    const why = error instanceof Error ? error.message : String(error);
    throw new JobmanError(`${path} cannot be read. Nothing was changed.`, exitCode.usage, [why], { cause: error });
  }
}

function placeIn(text: string, path: string): string {
  try {
    parseJson(text);
    return path;
  } catch (error) {
    if (!(error instanceof JsonTextError)) throw error;
    return jsonLines(text, path, [error.found]).join('');
  }
}

async function partsOf(desk: TpuCli): Promise<ImportParts> {
  const [words, around] = await Promise.all([wordsInUse(desk), surroundings(desk)]);
  return {
    words,
    now: desk.io.now(),
    specOf: ({ tpu, directory, tag, rule, monitor, configs }) =>
      runSpec({ directory, tag, ...around(tpu), rule, monitor, written: writtenLine(tpu.name, configs) }),
  };
}

/** Settings of the site. The W&B key goes into a file of its own, and into no record. */
async function settingsOf({ lab, services }: TpuCli, data: OldData, isMeant: boolean): Promise<readonly ImportLine[]> {
  const lines: ImportLine[] = [];
  const { condaEnvironment, wandbKeyFile } = await lab.site();
  const { wandbKey, condaEnvironment: conda } = data;
  if (conda !== null && condaEnvironment !== null) {
    lines.push({ kind: 'have', what: 'setting lab.condaEnvironment', says: '' });
  } else if (conda !== null) {
    if (isMeant) await setSetting(services.home, 'lab.condaEnvironment', conda);
    lines.push({ kind: 'take', what: 'setting lab.condaEnvironment', says: conda });
  }
  if (wandbKey !== null && wandbKeyFile !== null) {
    lines.push({ kind: 'have', what: 'setting lab.wandbKeyFile', says: '' });
  } else if (wandbKey !== null) {
    const says = 'the W&B key, in a file that only you may read';
    if (isMeant) {
      const { file } = await (await services.labHome()).keepSecret('wandb_api_key', wandbKey);
      await setSetting(services.home, 'lab.wandbKeyFile', file);
      lines.push({ kind: 'take', what: 'setting lab.wandbKeyFile', says: `${says}: ${file}` });
    } else lines.push({ kind: 'take', what: 'setting lab.wandbKeyFile', says });
  }
  return lines;
}
