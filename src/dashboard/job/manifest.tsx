// The manifest of a job: as written, as resolved, and as a plan.

import { escapeForTerminal } from '../../app/format.ts';
import { address, changeQuery, pageHref } from '../location.ts';
import { Empty, Failure } from '../parts/messages.tsx';
import { client } from '../session.ts';
import type { SectionProps } from './page.tsx';
import { Plan } from './plan.tsx';
import { useRead } from './read.ts';

const forms = [
  { name: 'written', title: 'As written' },
  { name: 'resolved', title: 'Resolved' },
  { name: 'plan', title: 'Plan and rules' },
] as const;

export function ManifestSection({ view }: SectionProps) {
  const { value, failure, again } = useRead(view.id, null, async () => ({ text: await client.manifest(view.id) }));
  const wanted = address.value.query.get('form');
  const form = forms.find(({ name }) => name === wanted)?.name ?? 'written';
  return (
    <section aria-label="Manifest">
      <div class="bar">
        <h2>Manifest</h2>
        <div class="toggles">
          {forms.map(({ name, title }) => (
            <button key={name} aria-pressed={name === form} onClick={() => changeQuery({ form: name })}>
              {title}
            </button>
          ))}
        </div>
        <a href={pageHref(['create'], { from: view.id })}>Create a job from this manifest</a>
      </div>
      {form === 'written' && (
        <>
          {failure !== null && <Failure lines={failure} retry={again} />}
          {value === undefined && failure === null && <p class="quiet">Reading the manifest…</p>}
          {value?.text === null && <Empty>The job has no manifest: its files were removed, or it was imported.</Empty>}
          {typeof value?.text === 'string' && <Text label="Manifest as written" text={value.text} />}
        </>
      )}
      {form === 'resolved' && (
        <>
          <p class="quiet">With all defaults, and with the values of --set; times are in milliseconds.</p>
          <Text label="Resolved manifest" text={JSON.stringify(view.spec, null, 2)} />
        </>
      )}
      {form === 'plan' && <Plan view={view} />}
    </section>
  );
}

function Text({ label, text }: { readonly label: string; readonly text: string }) {
  const shown = text
    .split('\n')
    .map((line) => escapeForTerminal(line, false))
    .join('\n');
  return (
    <pre tabIndex={0} role="region" aria-label={label}>
      {shown}
    </pre>
  );
}
