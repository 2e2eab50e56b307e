// tldr, check-rules and completion.

import type { RuleOutput } from '../../outputs.ts';
import { exitCode, JobmanError } from '../../../app/errors.ts';
import type { Evidence } from '../../../core/model/job.ts';
import { answerFor } from '../../../core/decide/recover.ts';
import { presets } from '../../../core/policy/presets.ts';
import type { RuleAnswer, RecoverableReason } from '../../../core/model/spec.ts';
import type { Program } from '../../command.ts';
import { completionScript } from '../../commands/help.ts';
import { shells } from '../../completion/proposals.ts';
import { refuseJson } from '../../context.ts';
import { inColumns } from '../../render/aligned.ts';
import { columnsOf } from '../../screen.ts';
import { requiredText, type TpuCli, type TpuHandler, type ParsedArguments } from '../command.ts';
import { presets as ruleNames } from '../table/shared.ts';
import { printTable } from '../terminal.ts';

const mostUsed: Readonly<Record<string, readonly string[]>> = {
  Start: ['add-user', 'set-cur', 'find', 'run'],
  Watch: ['monitor', 'check', 'log', 'news'],
  'Kill, resume, clean up': ['kill', 'resume', 'rerun', 'clean'],
  'Repair a TPU': ['describe', 'solve', 'reapply'],
  'Set up': ['add-config-alias', 'list', 'get-settings', 'check-rules'],
};

export function tldr({ commands }: Program): TpuHandler {
  return async (cli) => {
    refuseJson(cli.json, '`tpu tldr`');
    for (const [heading, names] of Object.entries(mostUsed)) {
      if (heading !== 'Start') cli.print('');
      cli.print(heading);
      const rows = commands.filter((row) => names.includes(row.names[0]));
      const examples = rows.map(({ examples: [first], summary }) => [first?.[0] ?? '', summary] as const);
      for (const line of inColumns(examples, columnsOf(cli.io.stdout))) cli.print(line);
    }
    return exitCode.ok;
  };
}

const ruleColumns: readonly (readonly [key: string, heading: string, reason: RecoverableReason, evidence: Evidence])[] =
  [
    ['preempted', 'TPU PREEMPTED', 'preempted', { message: '' }],
    ['grpc', 'GRPC ERROR', 'command_failed', { message: '', pattern: 'grpc' }],
    ['failed', 'OTHER FAILURES', 'command_failed', { message: '' }],
    ['succeeded', 'SUCCESS', 'succeeded', { message: '' }],
  ];

export async function checkRules(cli: TpuCli): Promise<number> {
  const rows = ruleNames.map((rule) => ({
    rule,
    answers: ruleColumns.map(([, , reason, evidence]) => answerFor({ rules: presets[rule] }, reason, evidence)),
  }));
  if (cli.json) {
    for (const { rule, answers } of rows) {
      const byEnd = Object.fromEntries(ruleColumns.map(([key], index) => [key, answers[index]]));
      cli.printJson({ rule, ...(byEnd as Omit<RuleOutput, 'rule'>) });
    }
    return exitCode.ok;
  }
  printTable(cli, [
    ['RULE', ...ruleColumns.map(([, heading]) => heading)],
    ...rows.map(({ rule, answers }) => [rule, ...answers.map(({ then, on }) => formatAnswer(then, on))]),
  ]);
  cli.note('The default rule is `pre` on a preemptible or spot TPU, and `pass` on any other TPU.');
  cli.note('Unreachable workers and timeouts of calls between workers count as GRPC errors.');
  return exitCode.ok;
}

function formatAnswer(then: RuleAnswer['then'], on: RuleAnswer['on']): string {
  if (then === 'done') return 'done';
  if (then === 'fail') return 'nothing';
  return on === 'new' ? `reapply, ${then}` : then;
}

export async function completion(cli: TpuCli, args: ParsedArguments): Promise<number> {
  const name = requiredText(args, 'shell');
  const shell = shells.find((one) => one === name);
  if (shell === undefined)
    throw new JobmanError(`Unknown shell \`${name}\`. Supported: ${shells.join(', ')}.`, exitCode.usage);
  refuseJson(cli.json, '`tpu completion`');
  cli.io.stdout.write(completionScript(shell, 'tpu'));
  return exitCode.ok;
}
