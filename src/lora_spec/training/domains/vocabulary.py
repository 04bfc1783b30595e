"""Names, places and things from which the computed domains make their records; made here, free to use."""

LICENSE = "CC0-1.0"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


FIRST_NAMES = _words(
    "Ada Amir Anna Aya Ben Bruno Carla Chen Clara Daniel Diego Elena Emil Eva Fatima Felix Grace Hana Hugo Ida Igor "
    "Ines Ivan Jack Jana Joao Julia Kai Karim Lara Leo Lina Luis Maja Marco Maria Mei Mila Nadia Nora Omar Oscar Paula "
    "Pedro Rosa Sami Sara Sofia Tariq Theo Tom Uma Vera Victor Wei Yara Yusuf Zoe"
)
LAST_NAMES = _words(
    "Adler Baker Berg Castro Chen Costa Diaz Dumont Evans Fischer Garcia Haddad Hansen Ito Jensen Khan Kim Kovac Lang "
    "Lopez Mason Meyer Moreau Nagy Novak Okafor Olsen Park Patel Petrov Quinn Rossi Sato Silva Singh Tanaka Torres "
    "Varga Weber Wolf Wright Yilmaz Young Zhang"
)
CITIES = _words(
    "Accra Athens Berlin Bogota Boston Cairo Dakar Dublin Geneva Hanoi Helsinki Istanbul Kyoto Lagos Lima Lisbon "
    "London Lyon Madrid Milan Montreal Mumbai Nairobi Oslo Paris Porto Prague Quito Riga Rome Seoul Sofia Sydney "
    "Tokyo Toronto Turin Vienna Warsaw Zurich"
)
JOBS = _words(
    "architect baker carpenter chemist cook dentist designer doctor driver editor electrician engineer farmer "
    "gardener journalist lawyer librarian mechanic musician nurse painter pharmacist photographer pilot plumber "
    "teacher translator writer"
)
GOODS = _words(
    "apples bags batteries books bottles boxes bulbs cables candles chairs cups desks folders forks gloves hats jars "
    "keyboards knives lamps mugs notebooks pencils pens plates rulers scarves shirts shoes spoons tables tents tickets "
    "tiles towels umbrellas"
)
COLORS = _words("black blue brown gold gray green orange pink purple red silver white yellow")
MONTHS = _words("January February March April May June July August September October November December")
EVENTS = _words("concert conference exam exhibition fair lecture meeting picnic race rehearsal seminar workshop")
