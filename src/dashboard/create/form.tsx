// The form next to the text of the manifest: it has no state of its own, and changes the text.

import { useSignal } from '@preact/signals';
import { escapeLine, formatBytes } from '../../app/format.ts';
import type { ManifestProblem } from '../../app/errors.ts';
import { parseForEditing, valueAt, withValue, type NewValue, type WrittenValue } from '../../manifest/edit.ts';
import { controlText, fieldGroups, itemsOf, type Field } from './fields.ts';

/** In characters: a longer default does not fit in its field. */
const maxPlaceholder = 22;
/** In characters. The form reads the whole text after each key. */
const maxText = 64_000;

interface FormProps {
  readonly text: string;
  readonly problems: readonly ManifestProblem[];
  readonly onChange: (text: string) => void;
}

export function Form({ text, problems, onChange }: FormProps) {
  const isTooLong = text.length > maxText;
  const document = isTooLong ? undefined : parseForEditing(text);
  if (document === undefined)
    return (
      <section aria-label="Form">
        <p class="quiet">
          {isTooLong
            ? `The text is longer than ${formatBytes(maxText)}, so the page shows no form.`
            : 'The form appears once the text is a valid YAML mapping.'}
        </p>
      </section>
    );
  return (
    <section aria-label="Form" class="create-form">
      {fieldGroups(document).map(({ title, fields }) => (
        <fieldset key={title}>
          <legend>{title}</legend>
          {fields.map((field) => (
            <FieldRow
              key={field.name}
              field={field}
              value={valueAt(document, field.path)}
              problems={problems.filter(({ key }) => field.names.includes(key.replace(/\[\d+\]$/, '')))}
              onChange={(value) => {
                const next = withValue(text, field.path, value);
                if (next !== undefined) onChange(next);
                return next !== undefined;
              }}
            />
          ))}
        </fieldset>
      ))}
      <p class="quiet">The form has the keys that most manifests use. Write all others in the text.</p>
    </section>
  );
}

interface FieldRowProps {
  readonly field: Field;
  readonly value: WrittenValue;
  readonly problems: readonly ManifestProblem[];
  /** Null removes the key. False if the text cannot have the value. */
  readonly onChange: (value: NewValue | null) => boolean;
}

function FieldRow({ field, value, problems, onChange }: FieldRowProps) {
  const { name, help, isRequired, defaultText, control } = field;
  // The text as it is typed, until the focus leaves the field: the manifest may have it in another form.
  const typed = useSignal<string | null>(null);
  const cannot = useSignal(false);
  const id = `field-${name}`;
  const text = controlText(value);
  const written = text ?? '';
  const change = (next: string): void => {
    typed.value = next;
    cannot.value = !onChange(newValueOf(control.kind, next));
  };
  const shared = {
    id,
    value: typed.value ?? written,
    'aria-required': isRequired,
    'aria-invalid': problems.length > 0,
    'aria-describedby': `${id}-help`,
    onBlur: () => (typed.value = null),
  };
  const [summary = '', ...rest] = help.split(/(?<=\.) (?=[A-Z`])/);
  const isShort = defaultText !== null && defaultText.length <= maxPlaceholder;
  const placeholder = defaultText === null ? '' : isShort ? `default: ${defaultText}` : 'default: see more';
  const more = [...rest, ...(defaultText === null || isShort ? [] : [`Default: ${defaultText}.`])];
  return (
    <div class="field">
      <label for={id}>
        <code>{name}</code>
        {isRequired && <span class="quiet">required</span>}
      </label>
      {text === null ? (
        <p class="quiet">The form cannot show this value. Edit it in the text.</p>
      ) : control.kind === 'choice' ? (
        <select {...shared} onChange={(event) => change(event.currentTarget.value)}>
          <option value="">{placeholder}</option>
          {[...new Set([...control.options, ...(written === '' ? [] : [written])])].map((option) => (
            <option key={option}>{option}</option>
          ))}
        </select>
      ) : control.kind === 'script' ? (
        <textarea {...shared} rows={5} spellcheck={false} onInput={(event) => change(event.currentTarget.value)} />
      ) : (
        <input
          {...shared}
          autocomplete="off"
          placeholder={control.kind === 'list' ? 'a, b' : placeholder}
          list={control.kind === 'text' && control.examples.length > 0 ? `${id}-examples` : undefined}
          onInput={(event) => change(event.currentTarget.value)}
        />
      )}
      {control.kind === 'text' && control.examples.length > 0 && (
        <datalist id={`${id}-examples`}>
          {control.examples.map((example) => (
            <option key={example} value={example} />
          ))}
        </datalist>
      )}
      <div id={`${id}-help`} class="help">
        {problems.map(({ message, suggestion }) => (
          <p key={message} class="bad">
            {escapeLine(suggestion === null ? message : `${message} (did you mean "${suggestion}"?)`)}
          </p>
        ))}
        {cannot.value && <p class="bad">The form cannot change this value. Edit it in the text.</p>}
        <p class="quiet">{withCode(summary)}</p>
      </div>
      {more.length > 0 && (
        <details class="quiet">
          <summary aria-label={`more about ${name}`}>more</summary>
          <p>{withCode(more.join(' '))}</p>
        </details>
      )}
    </div>
  );
}

/** Text between backticks is code. */
function withCode(text: string) {
  return text.split('`').map((part, index) => (index % 2 === 1 ? <code key={index}>{part}</code> : part));
}

/** Null for an empty field. */
function newValueOf(control: Field['control']['kind'], typed: string): NewValue | null {
  if (typed.trim() === '') return null;
  if (control === 'list') return itemsOf(typed);
  return control === 'script' && typed.includes('\n') && !typed.endsWith('\n') ? `${typed}\n` : typed;
}
