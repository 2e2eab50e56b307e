// The commands of a job. The server decides which ones apply; a button that does not says why.

import { useSignal } from '@preact/signals';
import type { JobView } from '../../app/client.ts';
import type { Verb } from '../../core/decide/commands.ts';
import type { JobActions } from '../../core/policy/permissions.ts';
import { Confirm } from '../parts/dialog.tsx';
import { client, linesOf } from '../session.ts';

interface CommandButton {
  readonly verb: Verb;
  readonly title: string;
  /** For a command that ends a program or gives something up: its consequences. */
  readonly harm?: (view: JobView) => readonly string[];
}

const buttons: readonly CommandButton[] = [
  { verb: 'resume', title: 'Resume' },
  { verb: 'rerun', title: 'Rerun' },
  {
    verb: 'stop',
    title: 'Stop',
    harm: () => ['Its program ends. Its capacity is kept and costs money until it is released.'],
  },
  {
    verb: 'cancel',
    title: 'Cancel',
    harm: () => ['Its program ends, and its capacity is released. The same capacity may not come back.'],
  },
  { verb: 'delete', title: 'Delete', harm: () => ['The job leaves the list, and its files are removed.'] },
];

export function Commands({ view, actions }: { readonly view: JobView; readonly actions: JobActions }) {
  const asked = useSignal<CommandButton | null>(null);
  const answer = useSignal<readonly string[]>([]);
  const send = async ({ verb }: CommandButton): Promise<void> => {
    asked.value = null;
    answer.value = [`${verb} was sent.`];
    try {
      const { message } = await client.sendCommand(view.id, verb, {});
      answer.value = [message];
    } catch (error) {
      answer.value = linesOf(error);
    }
  };
  return (
    <section aria-label="Commands" class="commands">
      {buttons.map((button) => {
        const action = actions[button.verb];
        const reason = action.answer === 'allow' ? undefined : action.message;
        const press = (): void => {
          if (action.answer === 'deny') answer.value = [action.message];
          else if (button.harm !== undefined) asked.value = button;
          else void send(button);
        };
        return (
          <button key={button.verb} aria-disabled={action.answer === 'deny'} title={reason} onClick={press}>
            {button.title}
          </button>
        );
      })}
      <div role="status">
        {answer.value.map((line) => (
          <p key={line}>{line}</p>
        ))}
      </div>
      {asked.value !== null && (
        <Confirm
          title={`${asked.value.title} ${view.id} (${view.name})?`}
          lines={asked.value.harm?.(view) ?? []}
          action={`${asked.value.title} ${view.id}`}
          onConfirm={() => {
            if (asked.value !== null) void send(asked.value);
          }}
          onClose={() => (asked.value = null)}
        />
      )}
    </section>
  );
}
