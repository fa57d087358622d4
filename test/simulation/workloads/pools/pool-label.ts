/**
 * Tells apart pools that are recreated under one name: label = name plus lifecycle number. Nodes and registry only know
 * the name.
 */
export function lifecycleParams(round: number): { readonly round: number } {
  return { round };
}

export function poolLabel(name: string, params: unknown): string {
  const round = (params as { readonly round?: number } | null)?.round;
  return round === undefined ? name : `${name}#${round}`;
}

export function poolNameOfLabel(label: string): string {
  return label.split('#', 1)[0] as string;
}
