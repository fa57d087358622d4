/**
 * Everything that clients saw, and whether one cell for each key could have answered so: reads, puts, swaps and
 * appends, those without an answer included. Looked at once, at the end.
 */
import { cellModel, type CellAction } from '../cell-model.ts';
import { checkByKey, type Operation, type Verdict } from '../linearizability.ts';
import type { Property } from '../observation.ts';

type Entry = { key: string; calledAt: number; endedAt: number; action: CellAction };

export const clientsSeeOneOrder: Property = () => {
  const entries = new Map<string, Entry>();
  let [events, answers] = [0, 0];
  return {
    observe(seen) {
      events += 1;
      if (seen.kind === 'called') {
        const { client, number, key, action } = seen.order;
        entries.set(`${client}/${number}`, { key, action, calledAt: events, endedAt: Infinity });
      }
      if (seen.kind !== 'answered') return undefined;
      const entry = entries.get(`${seen.order.client}/${seen.order.number}`);
      if (entry === undefined) return 'an answer to what nobody asked';
      answers += 1;
      entry.endedAt = events;
      if (entry.action.kind !== 'put') entry.action = { ...entry.action, saw: seen.saw };
      return undefined;
    },
    atEnd() {
      if (answers === 0) return 'no client got any answer';
      const wrong = checkByKey(cellModel, [...entries.values()]);
      return wrong && `${wrong.key}: ${print(wrong.verdict)}`;
    },
  };
};

function print(verdict: Verdict<CellAction>): string {
  if (verdict.kind !== 'violated') return verdict.kind;
  return `after ${verdict.placed} operations none of these fits: ${verdict.stuck.map(printOperation).join('; ')}`;
}

function printOperation({ calledAt, endedAt, action }: Operation<CellAction>): string {
  return `${JSON.stringify(action)} from ${calledAt} to ${endedAt}`;
}
