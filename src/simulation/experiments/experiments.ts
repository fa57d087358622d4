/** The experiments by name, as `remuster sim --experiment NAME` runs them. */
import { fullGrid, lifeguard } from './lifeguard.ts';
import { oneWay } from './one-way.ts';
import type { Report, Tools } from './report.ts';
import { fullSizes, scale } from './scale.ts';

export const experiments: Readonly<Record<string, (tools: Tools) => Report>> = {
  lifeguard: (tools) => lifeguard(fullGrid, tools),
  'one-way': oneWay,
  scale: (tools) => scale(fullSizes, tools),
};
