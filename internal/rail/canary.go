package rail

// Canary is the matter that the fleet builds for itself once an interval, so that
// one number says whether a fact becomes a frame right now. Its firm is of no
// user, and is left out of users' figures.
func Canary() Key {
	return Key{
		Firm:   UUID{0xca, 0xca, 0xca, 0xca, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 1},
		Matter: UUID{0xca, 0xca, 0xca, 0xca, 0, 0, 0x80, 0, 0x80, 0, 0, 0, 0, 0, 0, 2},
	}
}

// CanaryFact is the canary's fact; it triggers for the canary's firm only.
const CanaryFact EventName = "canary.asked"
